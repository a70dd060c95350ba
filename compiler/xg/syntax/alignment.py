"""Aligned columns: the labels of a block, their shapes, the shapes of a plan, options."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from xg.syntax import ast
from xg.syntax.lines import Line
from xg.syntax.tree import only, walk

# Lines much longer than all the others stick out of their column instead of moving it: by this
# many characters, and no more than a third of the lines.
LABEL_JUMP = 24
SHAPE_JUMP = 2

Column: TypeAlias = tuple[Literal["label", "shape", "placement", "option"], int]


class _Cell(NamedTuple):
    """Something to align: its column, the offset of its first token, the width in front of it."""

    column: Column
    offset: int
    before: int


def padding(
    module: ast.Module, lines: Sequence[Line], positions: Mapping[int, int]
) -> dict[int, int]:
    """How much wider the gap in front of each aligned token is, by the token's offset.

    `positions` are the columns of tokens without padding.
    """
    columns: defaultdict[Column, list[_Cell]] = defaultdict(list)
    for cell in _cells(module, lines, positions):
        columns[cell.column].append(cell)
    padding: dict[int, int] = {}
    for (kind, _), cells in columns.items():
        jump = LABEL_JUMP if kind == "label" else SHAPE_JUMP if kind == "shape" else 1000
        common = _common([cell.before for cell in cells], jump)
        padding.update({cell.offset: max(0, common - cell.before) for cell in cells})
    return padding


def _common(widths: list[int], jump: int) -> int:
    """The widest of them, or the widest but for a few that jump out."""
    ordered = sorted(widths)
    for count in range(-(-2 * len(ordered) // 3), len(ordered)):
        if ordered[count] - ordered[count - 1] > jump:
            return ordered[count - 1]
    return ordered[-1]


def _cells(
    module: ast.Module, lines: Sequence[Line], positions: Mapping[int, int]
) -> Iterator[_Cell]:
    """Everything that is aligned; columns are numbered by block or by paragraph."""
    labels = {tree.span.end: tree for tree in walk(module) if isinstance(tree, ast.Label)}
    plans = only(ast.Plan, module.plan_decls)
    places = [line.at_rest or line.memory for plan in plans for line in plan.placements]
    rests = {place.span.start for place in places if place}
    block = paragraph = 0
    previous = ""
    for line in lines:
        block += line.kind == "RBRACE"
        among_options = (previous == "OPTION") == (line.kind == "OPTION")
        paragraph += line.spaced or line.kind == "RBRACE" or not among_options
        previous = line.kind
        label = labels.get(line.tokens[-1].end) if line.tokens else None
        if label and label.span.start > line.tokens[0].start:
            yield _Cell(("label", block), label.span.start, positions[label.span.start])
        if label and len(label.ports) == 1 and label.ports[0].shape:
            name, shape = label.ports[0].name.span.start, label.ports[0].shape.span.start
            yield _Cell(("shape", paragraph), shape, positions[shape] - positions[name])
        for token in line.tokens:
            if token.start in rests:
                yield _Cell(("placement", paragraph), token.start, positions[token.start])
        equals = [token.start for token in line.tokens if token.type == "EQUAL"]
        if line.kind == "OPTION" and len(equals) == 1:
            yield _Cell(("option", paragraph), equals[0], positions[equals[0]])
