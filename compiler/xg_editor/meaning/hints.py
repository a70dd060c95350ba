"""The shape of every edge, for an editor to show between the words of a file."""

from __future__ import annotations

from collections.abc import Iterator

from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.typed import TypedBlocks
from xg.syntax import ast
from xg.syntax.ast import Syntax, walk
from xg_editor.meaning.edges import types_at


@dataclass(frozen=True, slots=True)
class ShapeHint:
    """A shape, to be shown behind the character before an offset."""

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
                for node, label in _labelled(tree):
                    if start <= node.span.end <= end:
                        yield from _of_node(typed, block, node, label)


def _labelled(chain: ast.Chain) -> Iterator[tuple[Syntax, ast.Label | None]]:
    """The nodes of a chain, with a call that it begins with, and the labels of their edges."""
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
