"""Prove a pipeline: its stages, in the order of each schedule, against one device."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np

import xg_runtime.ranks as ranks
from xg.cost.communication import sends
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import BACKENDS, Program
from xg.ir.collectives import send
from xg.ir.placement import Stage
from xg.sharding.local import ShardSpec, cuts
from xg.verify.controls import DRAWS, Control, Trial, controls
from xg.verify.rank_comparison import (
    ArrayDifference,
    Arrays,
    Counts,
    RankAgreement,
    RankComparison,
    RankRun,
    TrafficCheck,
    add,
    compared,
    expected,
    moved_by,
    summarize_differences,
)
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Interpreter
from xg_runtime.cells import SCHEDULES, Orders, check
from xg_runtime.errors import RankError
from xg_runtime.module import Module
from xg_runtime.ranks.pipeline import Link, Part, Pipeline, RankStage
from xg_runtime.stage_messages import check_actions, scheduled_actions

# A pipeline compared with the single-device program on the same microbatches.
#
# Every microbatch has arrays and a seed of its own. Outputs are compared for each, gradients summed
# over all; each stage answers for what it holds, and what several hold is equal on them to the bit.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StageRun:
    """The outputs of every microbatch, the gradients of all, and what a rank sent.

    `params` are the parameters after the step, for the running statistics among them.
    """

    outputs: tuple[Arrays, ...]
    gradients: Arrays
    sent: Counts
    params: Arrays


def link_of(stage: Stage) -> Link:
    """The stage as the runtime knows it."""
    holders = {name: list(places) for name, places in stage.holders.items()}
    ends = stage.receives, stage.sends
    return Link(stage.axis, stage.place, stage.count, stage.ranks, *ends, holders)


def of_rank(stages: Sequence[T], rank: int, ranks: int) -> Sequence[T]:
    """The stages of a rank, in the order of their turns."""
    return stages[rank::ranks]


@dataclass(frozen=True)
class PipelineComparison:
    """The program of every stage, and the arrays that it and one device run on.

    `undecided` says for each microbatch how far apart last bits may make elements.
    """

    program: Program
    params: Arrays
    parts: tuple[Part, ...]
    schedule: str
    undecided: tuple[Arrays, ...] = ()

    @classmethod
    def of(cls, one: Program, many: Program, seed: int, schedule: str) -> PipelineComparison:
        """One with random arrays; one microbatch more than there are ranks, or a group more."""
        params = interpret.initial(one.graphs, seed)
        ranks = next(iter(many.mesh.values()))
        count = ranks + 1 if ranks == len(many.stages) else 2 * ranks
        parts = tuple(_part(one, params, seed + number) for number in range(count))
        return cls(many, params, parts, schedule)

    @cached_property
    def undecided_sums(self) -> Arrays:
        """How far apart last bits may make gradients that are summed over microbatches."""
        found: dict[str, Any] = {}
        for each in self.undecided:
            for name, array in each.items():
                found[name] = array + found.get(name, 0.0)
        return found

    @property
    def links(self) -> list[Link]:
        """The place of every stage."""
        stages = (each.graphs.stage for each in self.program.stages)
        return [link_of(stage) for stage in stages if stage is not None]

    @cached_property
    def cuts(self) -> list[Mapping[str, ShardSpec]]:
        """Which axes of a stage's arrays are cut."""
        return [cuts(each.graphs) for each in self.program.stages]

    @property
    def ranks(self) -> int:
        """The ranks that share the stages."""
        return self.links[0].ranks

    @property
    def turns(self) -> int:
        """The stages of a rank."""
        return len(self.links) // self.ranks

    @property
    def orders(self) -> Orders:
        """The cells of every rank, in order."""
        return SCHEDULES[self.schedule](self.ranks, len(self.parts), self.turns)

    def on_one_device(self, module: Module) -> StageRun:
        """All microbatches on one device."""
        outputs: list[Arrays] = []
        total: dict[str, Any] = {}
        moved: dict[str, Any] = {}
        for part in self.parts:
            params = {**self.params, **moved}
            given, saved = module.forward(params, dict(part.inputs), seed=part.seed)
            outputs.append(given)
            moved |= moved_by(module, params, saved)
            for name, array in module.backward(params, saved, dict(part.cotangents)).items():
                total[name] = total[name] + array if name in total else array
        return StageRun(tuple(outputs), total, {}, moved)

    def on_ranks(
        self,
        modules: Sequence[Module],
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> list[StageRun]:
        """Run on all simulated ranks; raises RankError where they do not fit together."""

        def rank() -> StageRun:
            with around():
                return run_stage(
                    lambda place: modules[place],
                    self.links,
                    self.cuts,
                    self.params,
                    self.parts,
                    self.schedule,
                )

        return ranks.simulate(self.program.mesh, rank)

    def compare(self, alone: StageRun, together: Sequence[StageRun]) -> RankAgreement:
        """Every output and gradient against one device."""
        found, outputs = self.differences(alone, together), sum(map(len, alone.outputs))
        return summarize_differences(found, self.program.mesh, outputs, len(alone.gradients))

    def differs(self, alone: StageRun, together: Sequence[StageRun]) -> bool:
        """Whether any array is wrong."""
        return any(difference.is_wrong for difference in self.differences(alone, together))

    def differences(
        self, alone: StageRun, together: Sequence[StageRun]
    ) -> Iterator[ArrayDifference]:
        """Yield how far each result of a run is from the result of one device, stage by stage."""
        inner = len(together) // self.ranks
        for place, stage in enumerate(self.program.stages):
            first = place % self.ranks * inner
            runs = together[first : first + inner]
            names = {*stage.inputs, *stage.params, *stage.outputs}
            cotangents = self.parts[0].cotangents
            comparison = RankComparison(stage.graphs, {}, {}, cotangents, 0, self.undecided_sums)
            for part, outputs in enumerate(alone.outputs):
                own = replace(comparison, undecided=self.undecided[part] if self.undecided else {})
                wanted = named(names, outputs)
                found = [RankRun(named(names, run.outputs[part]), {}, {}) for run in runs]
                for each in own.differences(RankRun(wanted, {}, {}), found):
                    yield replace(
                        each,
                        name=f"{each.name} of microbatch {part}",
                        furthest=each.furthest + first,
                    )
            moved = named(names, alone.params)
            wanted = RankRun({}, named(names, alone.gradients), {}, moved)
            found = [
                RankRun({}, named(names, run.gradients), {}, named(moved, run.params))
                for run in runs
            ]
            for each in comparison.differences(wanted, found):
                yield replace(each, furthest=each.furthest + first)
        yield from self.between_stages(together, inner)

    def between_stages(self, together: Sequence[StageRun], inner: int) -> Iterator[ArrayDifference]:
        """Gradients of what several ranks hold, where they are not equal in bits."""
        shared = {name: places for link in self.links for name, places in link.holders.items()}
        for name, places in shared.items():
            first, *others = (place % self.ranks for place in places)
            for other in others:
                for rank in range(inner):
                    one, two = (together[p * inner + rank].gradients[name] for p in (first, other))
                    if not np.array_equal(one, two):
                        yield ArrayDifference(f"d{name}", 0.0, 0, other * inner + rank)


def run_stage(
    module: Callable[[int], Module],
    links: Sequence[Link],
    where: Sequence[Mapping[str, ShardSpec]],
    params: Arrays,
    parts: Sequence[Part],
    schedule: str,
) -> StageRun:
    """The run of the rank that calls this: its stages, on its shards of whole arrays."""
    counters = ranks.current().counters
    counters.clear()
    place, count = ranks.rank(links[0].axis), links[0].ranks
    own_links, own_cuts = of_rank(links, place, count), of_rank(where, place, count)
    held = {name: cut for each in own_cuts for name, cut in each.items()}
    mine = named(held, params)
    own = [
        Part(
            ranks.local_shards(part.inputs, held),
            ranks.local_shards(part.cotangents, held),
            part.seed,
        )
        for part in parts
    ]
    actions = scheduled_actions(schedule, count, len(parts), len(own_links))[place]
    pipeline = Pipeline(
        [
            RankStage(module(link.place), link, set(cut))
            for link, cut in zip(own_links, own_cuts, strict=True)
        ]
    )
    shards = {name: array.copy() for name, array in ranks.local_shards(mine, held).items()}
    outputs, gradients = pipeline.step(shards, own, actions)
    counts = {key: (one.calls, one.elements) for key, one in counters.counts.items()}
    return StageRun(tuple(outputs), gradients, counts, shards)


def named(names: Container[str], arrays: Arrays) -> dict[str, Any]:
    """The arrays of these names."""
    return {name: array for name, array in arrays.items() if name in names}


def _part(one: Program, params: Arrays, seed: int) -> Part:
    inputs = invented.inputs(one.graphs, seed)
    outputs, _ = Interpreter(one.graphs, params, seed).forward(inputs)
    return Part(dict(inputs), dict(invented.cotangents(outputs, seed)), seed)


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
        parts, turns = len(comparison.parts), comparison.turns
        check(comparison.orders, parts, turns)
        check_actions(scheduled_actions(schedule, comparison.ranks, parts, turns))
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
            for key, (calls, elements) in _stage_traffic(stage, parts, kernels=kernels).items():
                add(said, key, calls, elements)
        mine = runs[place * inner : (place + 1) * inner]
        for row in compared(said, [run.sent for run in mine]):
            bundled = kernels and row.kind != send.COLLECTIVE.name
            yield replace(row, direction=f"{row.direction}, {has} {place}", bundled=bundled)


def _stage_traffic(stage: Program, parts: int, *, kernels: bool) -> Counts:
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
            key = (each.direction, send.COLLECTIVE.name, placed.stage.axis)
            add(counts, key, times, times * each.payload.evaluate(numbers))
    return counts
