"""What is to be said about a place: the type of the edge, what an operator does, how long a dim is.

The text is Markdown. Code in it is the language's, so that an editor colours it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xg.graph import Graph
from xg.meaning.declared import Declaration, Names
from xg.meaning.edges import numbers_at, types_at
from xg.meaning.find import find
from xg.meaning.placements import placements_at
from xg.meaning.trail import Trail, smallest, trail
from xg.op import Op
from xg.project import Project
from xg.signature import signature
from xg.source import Span
from xg.syntax import ast
from xg.syntax.spelling import greek_name

_ARROWS = ("->", "<-", "<=")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Markdown about the characters of a span."""

    span: Span
    text: str


def explain(project: Project, graphs: Sequence[Graph], offset: int) -> Explanation | None:
    """What is known of the character at an offset of the main file; None where nothing is.

    Args:
        project: the files, as far as they could be read.
        graphs: every graph of a block that was typed, as `xg.choices.checked` gives them.
        offset: characters before the one that is asked about.
    """
    names = Names(project)
    around = smallest(project.main, offset, 0)
    arrow = _arrow(around, offset)
    if arrow is not None:
        return _Explainer(names, graphs, around).arrow(arrow)
    found = trail(project.main, offset)
    declaration = find(names, found)
    if declaration is None:
        return None
    paragraphs = _Explainer(names, graphs, found).declared(declaration)
    return Explanation(found[0].span, "\n\n".join(paragraphs))


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

    def __init__(self, names: Names, graphs: Sequence[Graph], found: Trail) -> None:
        self.names = names
        self.graphs = graphs
        self.found = found
        self.block = next((tree for tree in found if isinstance(tree, ast.Block)), None)

    def arrow(self, span: Span) -> Explanation | None:
        """What flows along an arrow."""
        tree = self.found[0]
        if self.block is None:
            return None
        if isinstance(tree, ast.Attachment):
            flows: ast.Syntax = tree.operand
        else:
            assert isinstance(tree, ast.Chain)
            before = tuple(step for step in tree.steps if step.span.start < span.start)
            flows = ast.Chain(tree.span, tree.sources, tree.label, before)
        types = types_at(self.graphs, self.block, flows)
        if not types:
            return None
        numbers = numbers_at(self.graphs, self.block, flows)
        return Explanation(span, "\n\n".join([_fence(", ".join(types)), *_numbers(numbers)]))

    def declared(self, what: Declaration) -> Iterator[str]:
        """The paragraphs about what a name stands for."""
        match what.kind, what.tree:
            case (("input" | "output" | "edge" | "parameter" | "state"), ast.Syntax() as tree):
                yield from self._value(what, tree)
            case (("dim" | "mesh axis"), (ast.DimDecl() | ast.MeshDecl()) as tree):
                yield from self._size(what, tree)
            case "operator", _:
                yield from _operator(what)
                yield from self._gives()
            case "block", ast.Block() as block:
                yield from _block(block)
                yield from self._gives()
            case "call", ast.NodeUse() as node:
                yield f"call of `{node.operator.span.text}`"
                callee = self.names.block(self.names.project.main, node.operator.name)
                yield from _block(callee) if callee else ()
                yield from self._gives()
            case (("option" | "word"), (ast.OptionDecl() | ast.Own()) as option):
                words = " | ".join(word.span.text for word in option.words)
                yield _fence(f"{option.name.span.text} = {words}")
                yield f"option; `{option.words[0].span.text}` where nothing is chosen"
                yield from self._gives()
            case "plan", (ast.Plan() | ast.PlanProduct()) as plan:
                yield from _plan(plan)
            case "file", _:
                yield f"the file `{what.name}`"
            case kind, ast.Syntax() as tree:
                yield _fence(tree.span.text)
                yield f"{kind}{_of(what.owner)}"
            case _:
                pass

    # ---- values ----------------------------------------------------------------------------------

    def _value(self, what: Declaration, tree: ast.Syntax) -> Iterator[str]:
        """A name with its type, what it is, the lengths that are known, and where plans put it."""
        block, name = what.owner, _as_written(what, tree)
        if not isinstance(block, ast.Block):  # an operand of an operator that the file defines
            yield _fence(tree.span.text)
            yield f"operand{_of(what.owner)}"
            return
        types = types_at(self.graphs, block, tree) or _promised(block, tree)
        yield _fence(f"{name} {types[0]}" if types else name)
        yield f"{what.kind}{_of(block)}{_start(tree)}"
        yield from _numbers(numbers_at(self.graphs, block, tree))
        placements = placements_at(self.names.project, self.graphs, block, tree)
        for plan, layout in placements.items():
            yield f"in plan `{plan}`: `{layout}`"

    def _gives(self) -> Iterator[str]:
        """The edge that leaves the node under the cursor."""
        node = self.found[1]
        if self.block is None or not isinstance(node, ast.NodeUse | ast.Call):
            return
        types = types_at(self.graphs, self.block, node)
        label = node.label if isinstance(node, ast.NodeUse) else None
        names = [port.name.span.text for port in label.ports] if label else []
        if types:
            named = len(names) == len(types)
            pairs = zip(names, types, strict=True) if named else (("", type_) for type_ in types)
            yield "here it gives"
            yield _fence(", ".join(f"{name} {type_}".strip() for name, type_ in pairs))
            yield from _numbers(numbers_at(self.graphs, self.block, node))

    # ---- sizes -----------------------------------------------------------------------------------

    def _size(self, what: Declaration, tree: ast.DimDecl | ast.MeshDecl) -> Iterator[str]:
        word = "mesh" if isinstance(tree, ast.MeshDecl) else "dim"
        yield _fence(f"{word} {tree.span.text}")
        number = self._number(what.name)
        if tree.size is None:
            yield f"{what.kind} without a size: the inputs decide, or `--set {what.name}=…`"
        elif number is not None and not isinstance(tree.size, ast.Number):
            yield f"{what.kind}, {number:,} as the file stands"
        else:
            yield what.kind

    def _number(self, name: str) -> int | None:
        """The length of a dim, by the block around the place if there is one."""
        block = self.block
        near = [graph for graph in self.graphs if block is not None and graph.span == block.span]
        for graph in (*near, *self.graphs):
            return graph.sizes.bind({}).get(name)
        return None


# ---- what needs no place -------------------------------------------------------------------------


def _operator(what: Declaration) -> Iterator[str]:
    if isinstance(what.tree, ast.OpDef):
        yield _fence(what.tree.span.text)
        yield "operator of the file; its gradient is derived from the expression"
        return
    assert what.op is not None
    op: Op = what.op
    yield f"**{op.glyph}** {op.name}"
    yield _fence(signature(op))
    yield op.meaning
    lines = (("formula", op.formula), ("gradient", op.gradient))
    yield "\n".join(f"- {word} `{text}`" for word, text in lines if text)


def _block(block: ast.Block) -> Iterator[str]:
    text = block.span.source.text
    ports = (*block.data, *block.own, *block.outputs, block.name)
    yield _fence(text[block.span.start : max(tree.span.end for tree in ports)])
    params = ", ".join(f"`{_declared(param)}`" for param in block.params)
    if params:
        yield f"parameters: {params}"


def _plan(plan: ast.Plan | ast.PlanProduct) -> Iterator[str]:
    if isinstance(plan, ast.Plan):
        yield _fence(f"plan {plan.name.span.text} of {plan.block.span.text}")
    else:
        yield _fence(plan.span.text)
    if plan.title:
        yield plan.title.value


def _declared(param: ast.Param) -> str:
    return f"{param.name.span.text} {param.shape.span.text}"


def _as_written(what: Declaration, tree: ast.Syntax) -> str:
    return tree.name.span.text if isinstance(tree, ast.Port | ast.Param | ast.State) else what.name


def _promised(block: ast.Block, tree: ast.Syntax) -> list[str]:
    """The type that the file itself gives a name, for where a mistake keeps others unknown."""
    outputs = {port.name.name: port for port in block.outputs}
    if isinstance(tree, ast.Port) and tree.shape is None:
        tree = outputs.get(tree.name.name, tree)
    if not isinstance(tree, ast.Port | ast.Param | ast.State) or tree.shape is None:
        return []
    return [tree.shape.span.text + (f" in {tree.range.span.text}" if tree.range else "")]


def _start(tree: ast.Syntax) -> str:
    if not isinstance(tree, ast.Param):
        return ""
    return f", starts as `{tree.init.span.text}`" if tree.init else ", starts at random"


def _of(owner: ast.Syntax | None) -> str:
    named = isinstance(owner, ast.Block | ast.OpDef)
    return f" of `{owner.name.span.text}`" if named else ""


def _numbers(numbers: Mapping[str, int]) -> Iterator[str]:
    if numbers:
        known = ", ".join(f"{greek_name(name)} = {value:,}" for name, value in numbers.items())
        yield f"with {known}"


def _fence(text: str) -> str:
    return f"```xg\n{text}\n```"
