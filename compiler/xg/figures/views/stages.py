"""Stages: the nodes of a block between two of its collectives belong together.

A block's nodes are divided into those before the first collectives, these, those before the next …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.views.arrange import DrawnOperation
from xg.figures.views.forward import ForwardDrawing
from xg.figures.views.notation import Notation
from xg.figures.views.parameter_lines import TakenParameter
from xg.figures.views.sketch import Move
from xg.ir.graph import Apply, Call, Value


@dataclass(frozen=True, slots=True)
class Piece:
    """One node of a column.

    `taken` are the parameters that it takes; `move` is what it sends itself, if it is a
    collective. `own` is the operation in its block's own values, with their notation, if it is one.
    """

    operation: DrawnOperation
    step: Apply | Call
    taken: tuple[TakenParameter, ...] = ()
    move: Move | None = None
    own: tuple[Notation, DrawnOperation] | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """A call that is to be opened, in the drawing of its caller."""

    call: Call
    drawing: ForwardDrawing
    outside: Mapping[Value, Value]


def stages(items: Iterable[Piece | Opening]) -> Iterator[tuple[bool, list[Piece | Opening]]]:
    """Yield a block's stages in order, True beside those of collectives and of nodes with some.

    A node that needs no collective comes just before its reader.
    """
    items = list(items)
    reached: dict[Value, int] = {}
    places: list[tuple[int, bool]] = []
    for item in items:
        taken, values = ends(item)
        stage = max((reached.get(value, 0) for value in taken), default=0)
        between = isinstance(item, Opening) or item.move is not None
        reached.update(dict.fromkeys(values, stage + between))
        places.append((stage, between))
    stage_of: dict[Value, int] = {}
    by_place: dict[tuple[int, bool], list[Piece | Opening]] = {}
    for item, (earliest, between) in zip(reversed(items), reversed(places), strict=True):
        taken, values = ends(item)
        stage = earliest
        if earliest == 0 and not between:
            stage = min((stage_of[value] for value in values if value in stage_of), default=0)
        stage_of.update({value: min(stage_of.get(value, stage), stage) for value in taken})
        by_place.setdefault((stage, between), []).insert(0, item)
    yield from ((place[1], by_place[place]) for place in sorted(by_place))


def ends(item: Piece | Opening) -> tuple[Sequence[Value], Sequence[Value]]:
    """Return the values that an item takes and gives, as they are called outside of it."""
    if isinstance(item, Piece):
        return [flow.value for flow in item.operation.flows], item.operation.outputs
    outside, call = item.outside, item.call
    taken = [outside.get(value, value) for value in call.inputs]
    return taken, [outside.get(value, value) for value in call.outputs]
