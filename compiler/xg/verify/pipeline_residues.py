"""A pipeline against one device over the integers modulo primes: stages, and what they send.

The interpreter of each stage runs in the runtime's pipeline, on residues. Sums over microbatches
and stages are those of integers, and become residues at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Final, cast

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import Program
from xg.ir import graph as ir
from xg.verify.first_edge import Edges, compare_edges
from xg.verify.pipeline_proof import PipelineComparison, StageRun, named, run_stage
from xg.verify.reference.evaluate import Mesh
from xg.verify.reference.interpret import Interpreter, Record
from xg.verify.reference.modular.meanings import modulo
from xg.verify.reference.modular.residues import Field, Undefined
from xg.verify.reference.modular.run import Outcome, RunInputs, interpreter, run_drawn
from xg.verify.reference.random import key
from xg.verify.residues import Exact, first_result
from xg_runtime.errors import RankError
from xg_runtime.module import Arrays, Module
from xg_runtime.ranks.pipeline import Part

PARTS: Final = 2  # microbatches at least: gradients are sums over several


@dataclass(frozen=True, slots=True)
class InterpretedModule:
    """A program in the interpreter, called as a module is; it keeps the record of every run."""

    program: ir.Program
    prime: int
    mesh: Mesh | None = None
    records: list[Record] = field(default_factory=list[Record])

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int
    ) -> tuple[Arrays, tuple[Interpreter, Record]]:
        """Outputs by name, and the run."""
        given = RunInputs(self.prime, params, inputs, {}, seed)
        runner = interpreter(self.program, given, self.mesh)
        outputs, record = runner.forward(inputs)
        self.records.append(record)
        return outputs, (runner, record)

    def backward(
        self, params: Arrays, saved: tuple[Interpreter, Record], cotangents: Arrays
    ) -> Arrays:
        """Gradients of parameters and inputs."""
        del params
        runner, record = saved
        return runner.backward(record, cotangents)


Records = Mapping[int, Sequence[Record]]  # of every stage of a rank
Runs = Sequence[tuple[StageRun, Records]]


@dataclass(frozen=True)
class PipelineResidues:
    """The stages of a pipeline and the program of one device, on the same residues."""

    one: Program
    comparison: PipelineComparison
    prime: int

    @classmethod
    def of(cls, one: Program, many: Program, prime: int, seed: int) -> PipelineResidues:
        """One with random residues; raises Undefined as `exactly` does."""
        first, _ = run_drawn(one.graphs, prime, seed)
        given = [first]
        ranks = next(iter(many.mesh.values()))
        count = PARTS if ranks == len(many.stages) else max(PARTS, ranks)
        for number in range(1, count):
            other = key(seed, f"microbatch {number}")
            given.append(run_drawn(one.graphs, prime, other, first.params)[0])
        parts = tuple(Part(dict(each.inputs), dict(each.cotangents), each.seed) for each in given)
        return cls(one, PipelineComparison(many, first.params, parts, "1F1B"), prime)

    @cached_property
    def alone(self) -> tuple[StageRun, Sequence[Record]]:
        """The run on one device."""
        module = InterpretedModule(self.one.graphs, self.prime)
        return self.comparison.on_one_device(cast(Module, module)), module.records

    def on_ranks(
        self, around: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> list[tuple[StageRun, Records]]:
        """Run on all simulated ranks."""
        given = self.comparison
        stages = given.program.stages

        def rank() -> tuple[StageRun, Records]:
            made: dict[int, Sequence[Record]] = {}

            def module(place: int) -> Module:
                found = InterpretedModule(stages[place].graphs, self.prime, cast(Mesh, ranks))
                made[place] = found.records
                return cast(Module, found)

            with around():
                run = run_stage(
                    module, given.links, given.cuts, given.params, given.parts, given.schedule
                )
            return run, made

        return ranks.simulate(given.program.mesh, rank)

    def compare(self, runs: Runs) -> Exact:
        """Every edge of every stage and microbatch, then all results."""
        alone, _ = self.alone
        arrays = sum(map(len, alone.outputs)) + len(alone.gradients)
        stages = self.comparison.program.stages
        count_of_ranks = self.comparison.ranks
        inner = len(runs) // count_of_ranks
        count, differ, wrong = 0, list[tuple[int, bool, int, str]](), list[str]()
        for place, stage in enumerate(stages):
            first = place % count_of_ranks * inner
            mine = [(run, records[place]) for run, records in runs[first : first + inner]]
            for part in range(len(self.comparison.parts)):
                records = [each[part] for _, each in mine]
                edges = self._edges(stage.graphs, records, part)
                count += edges.count
                if edges.first is not None:  # backward passes run through stages from the last
                    turn = -place if edges.is_backward else place
                    said = f"{edges.first}, stage {place}"
                    differ.append((part, edges.is_backward, turn, said))
            found = self._results(stage, [run for run, _ in mine])
            wrong += [f"{name} of stage {place}" for name in found]
        first = min(differ)[-1] if differ else next(iter(wrong), self._unlike(runs, inner))
        return Exact(self.prime, arrays, count, first)

    def _edges(self, stage: ir.Program, mine: Sequence[Record], part: int) -> Edges:
        _, records = self.alone
        add = modulo(self.prime).add
        return compare_edges(
            self.one.graphs, records[part], stage, mine, np.array_equal, add, self._shared
        )

    @cached_property
    def _shared(self) -> Set[ir.Value]:
        """Values that several stages have, and their calls: each has a share of the gradient."""
        held: Counter[ir.Value] = Counter()
        calls: Counter[tuple[ir.Value, int]] = Counter()
        for stage in self.comparison.program.stages:
            main = stage.graphs.main
            made = [value for step in main.steps for value in step.outputs]
            held.update({*made, *main.inputs, *main.param_values()})
            calls.update((s.saved, s.first) for s in main.steps if isinstance(s, ir.Call))
        several = {value for value, count in held.items() if count > 1}
        row = {value for stage in self.comparison.program.stages for value in _sent(stage.graphs)}
        return several - row | {saved for (saved, _), count in calls.items() if count > 1}

    def _results(self, stage: Program, runs: Sequence[StageRun]) -> Iterator[str]:
        """The first result of a stage that differs."""
        alone, _ = self.alone
        names = {*stage.inputs, *stage.params, *stage.outputs}
        for part, outputs in enumerate(alone.outputs):
            wanted = Outcome(named(names, outputs), {})
            found = [Outcome(named(names, run.outputs[part]), {}) for run in runs]
            first = first_result(wanted, found, stage.graphs)
            if first is not None:
                yield f"{first} of microbatch {part}"
        wrap = Field(self.prime).wrap
        totals = [
            {n: wrap(g) for n, g in named(names, run.gradients).items()} for run in (alone, *runs)
        ]
        found = [Outcome({}, total) for total in totals[1:]]
        first = first_result(Outcome({}, totals[0]), found, stage.graphs)
        if first is not None:
            yield first

    def _unlike(self, runs: Runs, inner: int) -> str | None:
        """The first array that several stages hold, and whose gradients on them differ."""
        each = self.comparison.between_stages([run for run, _ in runs], inner)
        return next((f"{found.name} of two stages" for found in each), None)


def exactly_in_stages(one: Program, many: Program, prime: int, seed: int) -> Exact:
    """Both passes of all microbatches; raises Undefined as `exactly` does."""
    residues = PipelineResidues.of(one, many, prime, seed)
    try:
        return residues.compare(residues.on_ranks())
    except RankError as error:
        if isinstance(error.__cause__, Undefined):
            return Exact(prime, 0, 0, str(error))
        raise


def _sent(stage: ir.Program) -> tuple[ir.Value, ...]:
    """The stream that a stage sends: in the program of one device, that behind the last round."""
    return stage.main.outputs if stage.stage is not None and stage.stage.sends else ()
