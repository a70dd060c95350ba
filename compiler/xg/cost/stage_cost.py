"""Price plans on meshes of any shape by formulas that are quick to evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Final

from xg.cost.communication import Sent, sum_by_kind
from xg.cost.report import CostReport, Machine, seconds_of_bytes
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim
from xg.ir.placement import axes_over

Numbers = Mapping[str, int]
Formula = tuple[tuple[float, tuple[tuple[str, int], ...]], ...]


@dataclass(frozen=True, slots=True)
class StageSend:
    """Collectives over the same axes: bytes around a ring, and hops that wait for one another.

    `once` says that all microbatches of a step share it.
    """

    over: str
    axes: tuple[str, ...]
    volume: Formula
    hops: Formula
    once: bool


@dataclass(frozen=True, slots=True)
class StageCost:
    """One stage of a pipeline, or a whole program, on one rank.

    `resting` are the bytes of parameters, gradients and moments, `waiting` those of whole gradients
    that wait for the last of several microbatches; `saved` are what a backward pass of one of them
    reads. The largest of `alive` is there beside them, of `rows` in a stage that has rows alone.
    """

    dtype: str
    flops: Formula
    resting: Formula
    waiting: Formula
    saved: Formula
    alive: tuple[Formula, ...]
    rows: tuple[Formula, ...]
    sends: tuple[StageSend, ...]


@dataclass(frozen=True, slots=True)
class StageNumbers:
    """The same at some sizes."""

    flops: float
    resting: float
    waiting: float
    saved: float
    alive: float
    sends: tuple[tuple[StageSend, float, float], ...]


def stages_of(reports: Iterable[CostReport]) -> tuple[StageCost, ...]:
    """Return the cost of every stage; equal stages share one object."""
    known: dict[StageCost, StageCost] = {}
    return tuple(known.setdefault(each, each) for each in map(_stage, reports))


def _stage(report: CostReport) -> StageCost:
    amount, memory = report.total, report.memory
    sends = [
        StageSend(
            part.over,
            tuple(axes_over(part.over)),
            formula(part.bytes("ring")),
            formula(part.hops),
            once,
        )
        for once in (False, True)
        for part in _sum_sends(report, once=once)
    ]
    return StageCost(
        report.dtype,
        formula(amount.forward + amount.backward),
        formula(memory.parameters + memory.gradients + memory.optimizer - amount.held),
        formula(amount.held),
        formula(memory.saved),
        tuple(map(formula, report.alive.whole)),
        tuple(map(formula, report.alive.rows)),
        tuple(sends),
    )


def _sum_sends(report: CostReport, *, once: bool) -> Sequence[Sent]:
    return sum_by_kind(each for each in report.sent if each.once == once)


def formula(dim: Dim) -> Formula:
    """A size as numbers and powers."""
    return tuple((float(factor), tuple(monomial)) for monomial, factor in dim.terms)


def value(formula: Formula, numbers: Numbers) -> float:
    """A formula as a number."""
    total = 0.0
    for factor, monomial in formula:
        term = factor
        for name, power in monomial:
            term *= float(numbers[name]) ** power
        total += term
    return total


def at(stage: StageCost, numbers: Numbers) -> StageNumbers:
    """A stage at some sizes."""
    sends = tuple(
        (each, value(each.volume, numbers), value(each.hops, numbers))
        for each in stage.sends
        if any(numbers.get(axis, 1) > 1 for axis in each.axes)
    )
    return StageNumbers(
        value(stage.flops, numbers),
        value(stage.resting, numbers),
        value(stage.waiting, numbers),
        value(stage.saved, numbers),
        max((value(each, numbers) for each in stage.alive), default=0.0),
        sends,
    )


def share(stage: StageCost, count: int) -> StageCost:
    """Return one of `count` equal parts of a stage's rows, whose own peaks stay whole."""

    def part(formula: Formula) -> Formula:
        return tuple((factor / count, monomial) for factor, monomial in formula)

    sends = tuple(
        replace(each, volume=part(each.volume), hops=part(each.hops)) for each in stage.sends
    )
    return replace(
        stage,
        flops=part(stage.flops),
        resting=part(stage.resting),
        waiting=part(stage.waiting),
        saved=part(stage.saved),
        alive=stage.rows,
        sends=sends,
    )


# The price of a plan on a mesh of some shape: seconds of a step, and bytes that a rank holds.
#
# The costs of a plan are formulas in the sizes of the mesh, so one compilation prices every shape.
# Ranks that are neighbors along the inner axes share a node, and a node's links; all others send
# over the network between nodes.


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes of `size` ranks: their machine, and the same machine as it sends to other nodes."""

    inside: Machine
    between: Machine | None
    size: int


@dataclass(frozen=True, slots=True)
class MeshPrice:
    """One step of the slowest rank, and the most that one holds.

    `waiting` is the bubble of a pipeline, `inner` are the axes within a node; `parts` are the
    microbatches. `sent` has the seconds of each axis, or of several that are summed over together.
    """

    mesh: Numbers
    parts: int
    computing: float
    sending: float
    waiting: float
    memory: float
    inner: tuple[str, ...]
    sent: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """The whole step: nothing overlaps."""
        return self.computing + self.sending + self.waiting


HALVES: Final = "ZBH1"  # the schedule that takes backward passes in halves


def price(
    stages: Sequence[StageCost],
    mesh: Numbers,
    axis: str | None,
    numbers: Numbers,
    parts: int,
    cluster: Cluster,
    schedule: str = "1F1B",
) -> MeshPrice | None:
    """The price of a plan by the costs of its stages; None where the machine has no rate.

    `axis` is that of a pipeline, and `schedule` the order of its stages; `numbers` are the sizes of
    one of `parts` microbatches.
    """
    rate = cluster.inside.flops.get(stages[0].dtype)
    if rate is None:
        return None
    ranks = mesh[axis] if axis else 1
    turns = len(stages) // ranks
    sizes = {**numbers, **mesh}
    apart = {id(each): each for each in stages}
    known = {name: at(each, sizes) for name, each in apart.items()}
    found = [known[id(each)] for each in stages]
    memory = max(
        _held(found[rank::ranks], kept(schedule, ranks - 1 - rank, ranks, turns, parts), parts)
        for rank in range(ranks)
    )
    own = {tuple(map(id, found[rank::ranks])): found[rank::ranks] for rank in range(ranks)}
    works = [_work(each, mesh, rate, cluster) for each in own.values()]
    steps = (
        _step(works, mesh, parts, inner, memory, (ranks - 1) / turns, schedule)
        for inner in _inner(mesh, cluster)
    )
    return min(steps, key=lambda each: each.seconds, default=None)


def _step(
    works: Sequence[tuple[float, list[Send]]],
    mesh: Numbers,
    parts: int,
    inner: tuple[str, ...],
    memory: float,
    behind: float,
    schedule: str,
) -> MeshPrice:
    """Price a step on the slowest rank, with the `inner` axes inside one node."""
    computing, each_and_once = max(
        ((computing, _times(sends, inner, parts)) for computing, sends in works),
        key=lambda each: parts * each[0] + sum(map(sum, each[1].values())),
    )
    sent = {over: sum(times) for over, times in each_and_once.items()}
    sending, of_parts = sum(sent.values()), sum(each for each, _ in each_and_once.values())
    waiting = behind * (computing + of_parts / parts)
    waiting /= 3 if schedule == HALVES else 1  # the gradients of parameters fill the rest
    return MeshPrice(mesh, parts, parts * computing, sending, waiting, memory, inner, sent)


def _inner(mesh: Numbers, cluster: Cluster) -> Iterator[tuple[str, ...]]:
    """Every choice of axes that fit into a node together, the most of them first."""
    axes = [axis for axis, size in mesh.items() if size > 1]
    for count in range(len(axes), -1, -1):
        for chosen in combinations(axes, count):
            size = prod(mesh[axis] for axis in chosen)
            whole = count == len(axes) or cluster.between is not None
            if whole and size <= cluster.size and cluster.size % size == 0:
                yield chosen


# Over which axes, seconds in a node, or not, and whether all microbatches share it.
Send = tuple[str, frozenset[str], float, float, bool]


def kept(schedule: str, after: int, ranks: int, turns: int, parts: int) -> int:
    """Count the microbatch passes whose data a rank keeps for their backward passes.

    `after` are the ranks that follow it. Without a pipeline parts are computed one by one.
    """
    if ranks == turns == 1:
        return 1
    after = ranks - 1 if schedule == HALVES else after  # each keeps as much as the first
    ahead = after if turns == 1 else 2 * after + (turns - 1) * ranks
    return parts * turns if schedule == "GPipe" else min(ahead + 1, parts * turns)


def _work(
    stages: Sequence[StageNumbers], mesh: Numbers, rate: float, cluster: Cluster
) -> tuple[float, list[Send]]:
    """Return the seconds of computing, and of every collective in a node and between nodes.

    Those of a rank, of all its stages.
    """
    near, far = cluster.inside, cluster.between or cluster.inside
    sends = [
        (
            part.over,
            frozenset(axis for axis in part.axes if mesh.get(axis, 1) > 1),
            seconds_of_bytes(near, part.axes, volume, hops),
            seconds_of_bytes(far, part.axes, volume, hops),
            part.once,
        )
        for stage in stages
        for part, volume, hops in stage.sends
    ]
    return sum(stage.flops for stage in stages) / rate, sends


def _times(
    sends: Sequence[Send], inner: tuple[str, ...], parts: int
) -> dict[str, tuple[float, float]]:
    """Return the seconds of sending by axis: for all parts, and once for them together."""
    times: dict[str, tuple[float, float]] = {}
    for over, axes, near, far, once in sends:
        each, shared = times.get(over, (0.0, 0.0))
        seconds = near if axes <= set(inner) else far
        times[over] = (each, shared + seconds) if once else (each + parts * seconds, shared)
    return times


def held(stages: Sequence[StageCost], numbers: Numbers, passes: int, parts: int) -> float:
    """Bytes of one rank: what rests, what `passes` of microbatches save, and what is alive beside.

    A rank may have several stages of a pipeline; `passes` are of any of them. Only where a step has
    several `parts` whole gradients wait for the last.
    """
    return _held([at(each, numbers) for each in stages], passes, parts)


def _held(stages: Sequence[StageNumbers], passes: int, parts: int) -> float:
    resting = sum(each.resting + (each.waiting if parts > 1 else 0) for each in stages)
    saved = max(each.saved for each in stages)
    return resting + passes * saved + max(each.alive for each in stages)


def shapes(axes: Sequence[str], ranks: int) -> Iterator[dict[str, int]]:
    """Yield every mesh with this number of ranks over these axes, each of two or more."""
    if not axes:
        if ranks == 1:
            yield {}
        return
    for size in range(2, ranks + 1):
        if ranks % size == 0:
            for rest in shapes(axes[1:], ranks // size):
                yield {axes[0]: size, **rest}
