"""Explain a place: types of edges, their placements and shapes, operators, dims.

The text is Markdown. Code in it is the language's, so that an editor colors it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import Project
from xg.frontend.typed import TypedBlocks
from xg.ir.graph import Graph, Value
from xg.ir.placement import Cuts, Layout, Plan
from xg.sharding.local import Clash, Misfit, placing, reach_of
from xg.syntax import ast
from xg.syntax.ast import Syntax, walk
from xg.syntax.spelling import greek_name
from xg_editor.declared import Declaration, ProjectNames, fence, head, numbers, of, paragraphs
from xg_editor.navigation import Trail, find, smallest, trail

# The types of edges: the results of inference for the values at a place.


_WORD = re.compile(r"[A-Za-z]\w*")


def types_at(typed: TypedBlocks, block: ast.Block, tree: Syntax) -> list[str]:
    """The types of the values of a tree of a block, one for each of them.

    In choices of options that differ the types may differ: then they are listed one after the
    other.

        Args:
            typed: the blocks that were typed.
            block: the block as written.
            tree: a node, an operand, a chain, or the port or declaration of a name.
    """
    spellings: dict[int, dict[str, None]] = {}
    for graph in typed.of(block):
        for place, value in enumerate(values_of(graph, block, tree)):
            if value in graph.types:
                spellings.setdefault(place, {})[written_type(graph, value)] = None
    return [" or ".join(types) for _, types in sorted(spellings.items())]


def numbers_at(typed: TypedBlocks, block: ast.Block, tree: Syntax) -> dict[str, int]:
    """The sizes in those types that have a number."""
    numbers: dict[str, int] = {}
    for graph in typed.of(block):
        known = typed.numbers(graph)
        for value in values_of(graph, block, tree):
            names = _symbols(graph, value)
            numbers.update({name: known[name] for name in names if name in known})
    return numbers


def written_type(graph: Graph, value: Value) -> str:
    """Return the type of a value as the file would write it: `[B, S/N_T, D]`, `[B, S] in V`."""
    range_ = graph.types[value].range
    shape = laid_out(graph, value, graph.layouts.get(value, {}))
    return shape + (f" in {in_greek(str(graph.sizes.fold(range_)))}" if range_ is not None else "")


def laid_out(graph: Graph, value: Value, cuts: Cuts) -> str:
    """The shape of a value, its axes divided by the mesh axes that cut them."""
    shape = graph.shape(value)
    cutting = [tuple(a for a in cuts if cuts[a] == axis) for axis in range(-len(shape), 0)]
    return in_greek(str(Layout(shape, tuple(cutting))))


def in_greek(text: str) -> str:
    """A text with its names as `xg fmt` writes them."""
    return _WORD.sub(lambda word: greek_name(word[0]), text)


def _symbols(graph: Graph, value: Value) -> Iterator[str]:
    if value in graph.types:
        for dim in graph.shape(value):
            yield from dim.symbols()


def values_of(graph: Graph, block: ast.Block, tree: Syntax) -> tuple[Value, ...]:
    """The values of a tree in one graph of its block; none where this choice leaves it out.

    The graph may be that of the same text at another place.
    """
    match tree:
        case ast.NodeUse() | ast.Call():
            return _step_results(graph, block, tree.span)
        case ast.Chain():
            return _end(graph, block, tree)
        case ast.Path():
            return _values_by_name(graph, tree.name)
        case ast.Port() | ast.Param() | ast.State():
            return _values_by_name(graph, tree.name.name)
        case _:
            return ()


def _end(graph: Graph, block: ast.Block, chain: ast.Chain) -> tuple[Value, ...]:
    """The values at the end of a chain: from its last node, or from its sources."""
    values: list[Value] = []
    waiting: list[ast.Start] = [chain]
    while waiting:
        operand = waiting.pop()
        if not isinstance(operand, ast.Chain):
            values += values_of(graph, block, operand)
            continue
        leaving = _leaving(graph, block, operand.steps)
        if leaving is None:
            waiting += reversed(operand.sources)
        elif not leaving:
            return ()  # a node with an error: its results are unknown
        values += leaving or ()
    return tuple(values)


def _leaving(
    graph: Graph, block: ast.Block, nodes: Sequence[ast.NodeUse]
) -> tuple[Value, ...] | None:
    """The results of the last node that this choice keeps; None where it keeps none."""
    for node in reversed(nodes):
        values = _step_results(graph, block, node.span)
        if values or node.guard is None:
            return values
    return None


def _step_results(graph: Graph, block: ast.Block, span: Span) -> tuple[Value, ...]:
    by = graph.span.start - block.span.start
    there = Span(graph.span.source, span.start + by, span.end + by)
    made = next((step.outputs for step in graph.steps if step.span == there), ())
    return tuple(value for value in made if value.role != "cache")


def _values_by_name(graph: Graph, name: str) -> tuple[Value, ...]:
    foreign = ((str(value.name), value) for value in graph.foreign)
    return next(((value,) for other, value in (*graph.names(), *foreign) if other == name), ())


# Where the plans of a project put a value.


def placements_at(
    project: Project, typed: TypedBlocks, block: ast.Block, tree: Syntax
) -> dict[str, str]:
    """The placement of a value in each plan that names it: `[D, D_ff/N_T] -> [D, D_ff]`.

    Args:
        project: the files whose plans count, without errors where there are graphs.
        typed: the blocks that were typed.
        block: the block as written; plans of its callers are not considered.
        tree: the port or the declaration of the name.
    """
    near = typed.of(block)
    if not near:
        return {}
    try:
        plans = plans_of(project).values()
    except DiagnosticError:
        return {}
    is_param = isinstance(tree, ast.Param)
    by_plan: dict[str, str] = {}
    for graph, plan in product(near, plans):
        for value in values_of(graph, block, tree):
            by_plan.update(
                (plan.name, text) for text in _placement_texts(graph, plan, value, is_param)
            )
    return by_plan


def _placement_texts(graph: Graph, plan: Plan, value: Value, is_param: bool) -> Iterator[str]:
    entries = reach_of(plan, graph.block_id).of(str(value.name), is_param=is_param)
    if not entries or value not in graph.types:
        return
    try:
        placed = placing(entries, graph.types[value].shape, graph.sizes)
    except (Misfit, Clash):
        return  # an error, reported at its place
    rest, use = (laid_out(graph, value, cuts) for cuts in (placed.rest, placed.use))
    yield rest if rest == use else f"{rest} -> {use}"


# The shape of every edge, for an editor to show between the words of a file.


@dataclass(frozen=True, slots=True)
class ShapeHint:
    """A shape to show at an offset, after the character before it."""

    offset: int
    text: str


def hints(module: ast.Module, typed: TypedBlocks, start: int, end: int) -> Iterator[ShapeHint]:
    """The shapes that the text does not say, of the edges that leave nodes in a part of a file.

    An edge with a name and a shape of its own has none, nor has an output, whose shape the head of
    the block gives. Of one that differs between choices of
    options the first is shown; the cursor shows them all.
    """
    for block in module.blocks:
        if block.span.end < start or end < block.span.start or not typed.of(block):
            continue
        for tree in walk(block):
            if isinstance(tree, ast.Chain):
                for node, label in _nodes_with_labels(tree):
                    if start <= node.span.end <= end:
                        yield from _of_node(typed, block, node, label)


def _nodes_with_labels(chain: ast.Chain) -> Iterator[tuple[Syntax, ast.Label | None]]:
    """Yield the nodes of a chain, a call at its start included, with their labels."""
    match chain.sources:
        case (ast.Call() | ast.NodeUse() as call,):
            yield call, chain.label
        case _:
            pass
    yield from ((node, node.label) for node in chain.steps)


def _of_node(
    typed: TypedBlocks, block: ast.Block, node: Syntax, label: ast.Label | None
) -> Iterator[ShapeHint]:
    if label is not None and label.shape is not None:
        return
    types = types_at(typed, block, node)
    if label is None:
        if types:
            yield ShapeHint(node.span.end, ", ".join(types))
    elif len(types) == len(label.ports):
        promised = {port.name.name for port in block.outputs if port.shape is not None}
        for port, type_ in zip(label.ports, types, strict=True):
            if port.shape is None and port.name.name not in promised:
                yield ShapeHint(port.name.span.end, type_)


_ARROWS = ("->", "<-", "<=")

_ValueTree = ast.Port | ast.Param | ast.State


@dataclass(frozen=True, slots=True)
class Explanation:
    """Markdown about the characters of a span."""

    span: Span
    text: str


def explain(project: Project, typed: TypedBlocks, offset: int) -> Explanation | None:
    """Explain the character at an offset of the main file; None if there is no explanation.

    Args:
        project: the files, as far as they could be read.
        typed: the blocks that were typed, as `xg.frontend.choices.typed_blocks` gives them.
        offset: characters before the one that is asked about.
    """
    names = ProjectNames(project)
    around = smallest(project.main, offset, 0)
    arrow = _arrow(around, offset)
    if arrow is not None:
        return _Explainer(names, typed, around).arrow(arrow)
    trees = trail(project.main, offset)
    declaration = find(names, trees)
    if declaration is None:
        return None
    paragraphs = _Explainer(names, typed, trees).declared(declaration)
    return Explanation(trees[0].span, "\n\n".join(paragraphs))


def _arrow(around: Trail, offset: int) -> Span | None:
    """The arrow of a chain or an operand that an offset is in."""
    source = around[0].span.source
    if isinstance(around[0], ast.Chain | ast.Attachment):
        for start in (offset, offset - 1):
            if start >= 0 and source.text[start : start + 2] in _ARROWS:
                return Span(source, start, start + 2)
    return None


class _Explainer:
    """Words for one place."""

    def __init__(self, names: ProjectNames, typed: TypedBlocks, found: Trail) -> None:
        self.names = names
        self.typed = typed
        self.found = found
        self.block = next((tree for tree in found if isinstance(tree, ast.Block)), None)

    def arrow(self, span: Span) -> Explanation | None:
        """The tensor that flows along an arrow."""
        tree = self.found[0]
        if self.block is None:
            return None
        if isinstance(tree, ast.Attachment):
            flows: Syntax = tree.operand
        else:
            assert isinstance(tree, ast.Chain)
            before = tuple(step for step in tree.steps if step.span.start < span.start)
            flows = ast.Chain(tree.span, tree.sources, tree.label, before)
        types = types_at(self.typed, self.block, flows)
        if not types:
            return None
        sizes = numbers_at(self.typed, self.block, flows)
        return Explanation(span, "\n\n".join([fence(", ".join(types)), *numbers(sizes)]))

    def declared(self, what: Declaration) -> Iterator[str]:
        """Yield the paragraphs about the declaration of a name."""
        match what.tree:
            case ast.Port() | ast.Param() | ast.State() as tree:
                yield from self._value(what, tree)
            case ast.DimDecl() | ast.MeshDecl() as tree:
                yield from self._size(what, tree)
            case ast.NodeUse() | ast.Call() as node:
                yield f"call of `{node.operator.span.text}`"
                callee = self.names.block(self.names.project.main, node.operator.name)
                yield from head(callee) if callee else ()
            case _:
                yield from paragraphs(what)
        yield from self._gives()

    # ---- values ----------------------------------------------------------------------------------

    def _value(self, what: Declaration, tree: _ValueTree) -> Iterator[str]:
        """A name with its type, what it is, the lengths that are known, and where plans put it."""
        block, name = what.owner, tree.name.span.text
        if not isinstance(block, ast.Block):  # an operand of an operator that the file defines
            yield fence(tree.span.text)
            yield f"operand{of(block)}"
            return
        types = types_at(self.typed, block, tree) or _stated_type(block, tree)
        yield fence(f"{name} {types[0]}" if types else name)
        yield f"{what.kind}{of(block)}{_start(tree)}"
        yield from numbers(numbers_at(self.typed, block, tree))
        placements = placements_at(self.names.project, self.typed, block, tree)
        for plan, layout in placements.items():
            yield f"in plan `{plan}`: `{layout}`"

    def _gives(self) -> Iterator[str]:
        """The edge that leaves the node whose operator is under the cursor."""
        node = self.found[1]
        if self.block is None or not isinstance(node, ast.NodeUse | ast.Call):
            return
        types = types_at(self.typed, self.block, node)
        if types:
            label = node.label if isinstance(node, ast.NodeUse) else None
            names = [port.name.span.text for port in label.ports] if label else []
            named = names if len(names) == len(types) else [""] * len(types)
            yield "here it gives"
            yield fence(", ".join(f"{n} {t}".strip() for n, t in zip(named, types, strict=True)))
            yield from numbers(numbers_at(self.typed, self.block, node))

    # ---- sizes -----------------------------------------------------------------------------------

    def _size(self, what: Declaration, tree: ast.DimDecl | ast.MeshDecl) -> Iterator[str]:
        word = "mesh" if isinstance(tree, ast.MeshDecl) else "dim"
        yield fence(f"{word} {tree.span.text}")
        number = self._number(what.name)
        if tree.size is None:
            yield f"{what.kind} without a size: the inputs decide, or `--set {what.name}=…`"
        elif number is not None and not isinstance(tree.size, ast.Number):
            yield f"{what.kind}, {number:,} in this file"
        else:
            yield what.kind

    def _number(self, name: str) -> int | None:
        """The length of a dim, by the block around the place if there is one."""
        near = self.typed.of(self.block) if self.block else ()
        for graph in (*near, *self.typed.graphs):
            return self.typed.numbers(graph).get(name)
        return None


def _stated_type(block: ast.Block, tree: _ValueTree) -> list[str]:
    """Return the type that the file itself states, for a value whose inference failed."""
    outputs = {port.name.name: port for port in block.outputs}
    if isinstance(tree, ast.Port) and tree.shape is None:
        tree = outputs.get(tree.name.name, tree)
    if tree.shape is None:
        return []
    return [tree.shape.span.text + (f" in {tree.range.span.text}" if tree.range else "")]


def _start(tree: _ValueTree) -> str:
    if not isinstance(tree, ast.Param):
        return ""
    return f", starts as `{tree.init.span.text}`" if tree.init else ", starts at random"
