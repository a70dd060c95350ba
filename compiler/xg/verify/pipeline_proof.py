"""The proof of a pipeline: its stages, in the order of each schedule, against one device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

from xg.cost.communication import sends
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import BACKENDS, Program
from xg.verify.check_traffic import TrafficCheck, add, compared, expected
from xg.verify.controls import DRAWS, Control, Trial, controls
from xg.verify.pipeline_comparison import PipelineComparison, StageRun, of_rank
from xg.verify.rank_comparison import Counts, RankAgreement
from xg_runtime.cells import SCHEDULES, check
from xg_runtime.errors import RankError

Found = tuple[Mapping[str, RankAgreement], None, tuple[TrafficCheck, ...], tuple[Control, ...]]


def prove_pipeline(
    one: Program, many: Program, seed: int, backends: Sequence[str], *, kernels: bool
) -> Found:
    """Agreement of every backend's code under every schedule, traffic, and the controls."""
    agreements: dict[str, RankAgreement] = {}
    for backend in backends:
        runner = _Runner(one, many, seed, backend, kernels)
        for schedule in SCHEDULES:
            found = runner.agreement(schedule)
            before = agreements.get(backend)
            if before is None or (before.first is None and found.error >= before.error):
                agreements[backend] = found
    counted = _Runner(one, many, seed, BACKENDS[0], kernels)
    return agreements, None, *counted.sent()


@dataclass(frozen=True)
class _Runner:
    """The code of one backend for all stages."""

    one: Program
    many: Program
    seed: int
    backend: str
    kernels: bool

    def agreement(self, schedule: str) -> RankAgreement:
        """How far ranks are from one device in the order of a schedule."""
        comparison = self._comparison(schedule)
        check(comparison.orders, len(comparison.parts), comparison.turns)
        alone = comparison.on_one_device(self.one.on_arrays(self.backend, kernels=self.kernels))
        stages = self.many.stages
        modules = [each.on_arrays(self.backend, kernels=self.kernels) for each in stages]
        try:
            return comparison.compare(alone, comparison.on_ranks(modules))
        except RankError as error:
            return RankAgreement(0, 0, float("inf"), f"{error}, {schedule}")

    def sent(self) -> tuple[tuple[TrafficCheck, ...], tuple[Control, ...]]:
        """The traffic, counted, and a control for each collective and send."""
        schedule = next(iter(SCHEDULES))
        comparison = self._comparison(schedule)
        one = self.one.on_arrays(kernels=self.kernels)
        alone = comparison.on_one_device(one)
        loaded = [each.load(kernels=self.kernels) for each in self.many.stages]
        modules: list[Any] = list(loaded)
        try:
            runs = comparison.on_ranks(modules)
        except RankError:
            return (), ()
        sent = tuple(checked(self.many, runs, len(comparison.parts), kernels=self.kernels))
        if comparison.differs(alone, runs):
            return sent, ()
        source = [each.source(kernels=self.kernels) for each in self.many.stages]

        def drawn(seed: int) -> Trial[StageRun]:
            again = replace(self, seed=seed)._comparison(schedule)
            return _trial(loaded, source, again, again.on_one_device(one))

        others = map(drawn, range(self.seed + 1, self.seed + 1 + DRAWS))
        return sent, tuple(controls(_trial(loaded, source, comparison, alone), others))

    def _comparison(self, schedule: str) -> PipelineComparison:
        return PipelineComparison.of(self.one, self.many, self.seed, schedule)


def _trial(
    modules: Sequence[ModuleType],
    sources: Sequence[str],
    comparison: PipelineComparison,
    alone: StageRun,
) -> Trial[StageRun]:
    """The code of stages with the numbers of a comparison, and what one device makes of them."""
    return Trial(
        modules,
        sources,
        lambda around: comparison.on_ranks(cast(Any, modules), around),
        lambda found: comparison.differences(alone, found),
        cast(Any, alone.gradients),
    )


def checked(
    many: Program, runs: Sequence[StageRun], parts: int, *, kernels: bool = False
) -> Iterator[TrafficCheck]:
    """The traffic of the ranks at every place, against the formulas, a row for each kind."""
    ranks = next(iter(many.mesh.values()))
    inner, has = len(runs) // ranks, "stage" if ranks == len(many.stages) else "rank"
    for place in range(ranks):
        said: Counts = {}
        for stage in of_rank(many.stages, place, ranks):
            for key, (calls, elements) in _expected(stage, parts, kernels=kernels).items():
                add(said, key, calls, elements)
        mine = runs[place * inner : (place + 1) * inner]
        for row in compared(said, [run.sent for run in mine]):
            bundled = kernels and row.kind != "send"
            yield replace(row, direction=f"{row.direction}, {has} {place}", bundled=bundled)


def _expected(stage: Program, parts: int, *, kernels: bool) -> Counts:
    """The formulas of a stage in numbers."""
    placed = stage.fused_distributed if kernels else stage.distributed
    assert placed is not None
    assert placed.stage is not None
    counts: Counts = {
        key: (calls * parts, elements * parts)
        for key, (calls, elements) in expected(placed).items()
    }
    numbers = {**placed.main.sizes.bind(placed.numbers), **placed.mesh}
    for each in sends(placed):
        times = parts if each.repeats else 1
        if placed.stage.ranks > 1:
            key = (each.direction, "send", placed.stage.axis)
            add(counts, key, times, times * each.payload.evaluate(numbers))
    return counts
