"""The explanation of a place: the type of an edge, the meaning of an operator, the size of a dim.

The text is Markdown. Code in it is the language's, so that an editor colours it.
"""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.frontend.project import Project
from xg.frontend.typed import TypedBlocks
from xg.syntax import ast
from xg.syntax.ast import Syntax
from xg_editor.meaning.declared import Declaration, ProjectNames
from xg_editor.meaning.edges import numbers_at, types_at
from xg_editor.meaning.find import find
from xg_editor.meaning.paragraphs import fence, head, numbers, of, paragraphs
from xg_editor.meaning.placements import placements_at
from xg_editor.meaning.trail import Trail, smallest, trail

_ARROWS = ("->", "<-", "<=")

_ValueTree = ast.Port | ast.Param | ast.State


@dataclass(frozen=True, slots=True)
class Explanation:
    """Markdown about the characters of a span."""

    span: Span
    text: str


def explain(project: Project, typed: TypedBlocks, offset: int) -> Explanation | None:
    """The explanation of the character at an offset of the main file; None if there is none.

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
        """The paragraphs about the declaration of a name."""
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
        types = types_at(self.typed, block, tree) or _promised(block, tree)
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


def _promised(block: ast.Block, tree: _ValueTree) -> list[str]:
    """The type that the file itself gives a name, for where an error keeps others unknown."""
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
