"""The price of a plan on a mesh of some shape: seconds of a step, and bytes that a rank holds.

The costs of a plan are formulas in the sizes of the mesh, so one compilation prices every shape.
Ranks that are neighbours along the inner axes share a node, and a node's links; all others send
over the network between nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Final

from xg.cost.communication import Sent, summed
from xg.cost.hardware import Machine, seconds_of, value_of
from xg.cost.recompute import computed_again
from xg.cost.report import CostReport
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.mesh_axes import axes_over

Numbers = Mapping[str, int]


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
    reports: Sequence[CostReport],
    mesh: Numbers,
    stages: str | None,
    numbers: Numbers,
    parts: int,
    cluster: Cluster,
    schedule: str = "1F1B",
) -> MeshPrice | None:
    """The price of a plan by the reports of its stages; None where the machine has no rate.

    `stages` is the axis of a pipeline, and `schedule` the order of its stages; `numbers` are the
    sizes of one of `parts` microbatches.
    """
    rate = cluster.inside.flops.get(reports[0].dtype)
    if rate is None:
        return None
    ranks = mesh[stages] if stages else 1
    turns = len(reports) // ranks
    memory = max(
        held(reports[rank::ranks], numbers, kept(schedule, ranks - 1 - rank, ranks, turns, parts))
        for rank in range(ranks)
    )
    works = [_work(reports[rank::ranks], numbers, mesh, rate, cluster) for rank in range(ranks)]
    best: MeshPrice | None = None
    for inner in _inner(mesh, cluster):
        computing, each_and_once = max(
            ((computing, _times(sends, inner, parts)) for computing, sends in works),
            key=lambda each: parts * each[0] + sum(map(sum, each[1].values())),
        )
        sent = {over: sum(times) for over, times in each_and_once.items()}
        sending, of_parts = sum(sent.values()), sum(each for each, _ in each_and_once.values())
        waiting = (ranks - 1) * (computing + of_parts / parts) / turns
        waiting /= 3 if schedule == HALVES else 1  # the gradients of parameters fill the rest
        found = MeshPrice(mesh, parts, parts * computing, sending, waiting, memory, inner, sent)
        if best is None or found.seconds < best.seconds:
            best = found
    return best


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
    """The passes of a microbatch of which a rank keeps what its backward passes need.

    `after` are the ranks that follow it. Without a pipeline parts are computed one by one.
    """
    if ranks == turns == 1:
        return 1
    after = ranks - 1 if schedule == HALVES else after  # each keeps as much as the first
    ahead = after if turns == 1 else 2 * after + (turns - 1) * ranks
    return parts * turns if schedule == "GPipe" else min(ahead + 1, parts * turns)


def _work(
    reports: Sequence[CostReport], numbers: Numbers, mesh: Numbers, rate: float, cluster: Cluster
) -> tuple[float, list[Send]]:
    """The seconds of computing, and those of every collective inside a node and between nodes.

    Those of a rank, of all its stages.
    """
    flops = (each.total.forward + each.total.backward for each in reports)
    computing = sum(value_of(each, numbers) for each in flops) / rate
    sends: list[Send] = []
    for report, once in product(reports, (False, True)):
        for part in summed(each for each in report.sent if each.once == once):
            if _is_sent(part, mesh):
                near = seconds_of(cluster.inside, part, numbers)
                far = seconds_of(cluster.between, part, numbers) if cluster.between else near
                axes = frozenset(a for a in axes_over(part.over) if mesh.get(a, 1) > 1)
                sends.append((part.over, axes, near, far, once))
    return computing, sends


def _times(
    sends: Sequence[Send], inner: tuple[str, ...], parts: int
) -> dict[str, tuple[float, float]]:
    """The seconds of sending by axis: for all of so many parts, and once for them together."""
    times: dict[str, tuple[float, float]] = {}
    for over, axes, near, far, once in sends:
        each, shared = times.get(over, (0.0, 0.0))
        seconds = near if axes <= set(inner) else far
        times[over] = (each, shared + seconds) if once else (each + parts * seconds, shared)
    return times


def _is_sent(part: Sent, mesh: Numbers) -> bool:
    """Whether there is anyone to send to."""
    return prod(mesh.get(axis, 1) for axis in axes_over(part.over)) > 1


def held(stages: Sequence[CostReport], numbers: Numbers, passes: int) -> float:
    """Bytes of one rank: what rests, what `passes` of microbatches save, and the largest array.

    A rank may have several stages of a pipeline; `passes` are of any of them.
    """
    resting = sum(
        value_of(each.memory.parameters + each.memory.gradients + each.memory.optimizer, numbers)
        for each in stages
    )
    saved = max(value_of(each.memory.saved, numbers) for each in stages)
    return resting + passes * saved + max(_at_once(each, numbers) for each in stages)


def _at_once(report: CostReport, numbers: Numbers) -> float:
    """The bytes of the largest array, and of what a backward pass has computed again meanwhile."""
    largest = value_of(report.largest.size, numbers) if report.largest else 0.0
    back = (value_of(each, numbers) for each in computed_again(report.cost))
    return largest + max(back, default=0.0)


def shapes(axes: Sequence[str], ranks: int) -> Iterator[dict[str, int]]:
    """Every mesh of so many ranks over these axes, none of which has one rank."""
    if not axes:
        if ranks == 1:
            yield {}
        return
    for size in range(2, ranks + 1):
        if ranks % size == 0:
            for rest in shapes(axes[1:], ranks // size):
                yield {axes[0]: size, **rest}
