"""One proof of a parallel program: the code of its ranks against one device, floats and residues.

Parameters are drawn at random and dropout is on, as where gradients are proven. Ranks are simulated
here; `ranking_processes` has them as processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.diagnostic import Span
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import BACKENDS, Program, compile_project
from xg.frontend.choices import choices_to_meet
from xg.frontend.project import Project
from xg.frontend.typed import Settings, concerning, named_block, shape_project, takes_own
from xg.ir import graph as ir
from xg.ir.graph import IRProgram
from xg.passes.pipelines import SINGLE_AROUND, run
from xg.sharding.local import cuts
from xg.verify.controls import DRAWS, Control, Trial, controls
from xg.verify.pipeline_proof import PipelineComparison, StageRun, named, prove_pipeline, run_stage
from xg.verify.proof_sizes import Case, case, mesh_sizes, reaches
from xg.verify.rank_comparison import (
    Edges,
    RankAgreement,
    RankComparison,
    RankRun,
    TrafficCheck,
    compare_edges,
    count,
    error_of,
    finite_part,
    gather_shards,
)
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg.verify.reference.evaluate import FLOATS, Mesh, NumberSystem
from xg.verify.reference.interpret import Interpreter, Record
from xg.verify.reference.random import key
from xg.verify.reference.residues import (
    PRIMES,
    Field,
    Outcome,
    RunInputs,
    Undefined,
    interpreter,
    modulo,
    run_drawn,
    run_with_record,
)
from xg_runtime import probe
from xg_runtime.errors import InputError, RankError
from xg_runtime.module import Array, Arrays, Module
from xg_runtime.ranks.pipeline import Part
from xg_runtime.ranks.run_task import Place

# A parallel program against that of one device over the integers modulo primes: exactly equal.


@dataclass(frozen=True, slots=True)
class Exact:
    """A count of edges that agree modulo a prime, and the first difference, if there is one."""

    prime: int
    arrays: int
    edges: int
    first: str | None


def exactly(
    one: IRProgram, many: IRProgram, prime: int, seed: int, arithmetic: NumberSystem | None = None
) -> Exact:
    """Compare both programs edge by edge, forward and backward, on random residues.

    `arithmetic` may be one for the ranks with a planted error. Raises Undefined where the program
    of one device asks for a number that does not exist, as the inverse of 0, however it is drawn.
    """
    inputs, _ = run_drawn(one, prime, seed)
    outcome, record = run_with_record(one, inputs)
    where = cuts(many)

    def rank() -> tuple[Outcome, Record]:
        mine = inputs.each(lambda arrays: ranks.local_shards(arrays, where))
        return run_with_record(many, mine, cast(Mesh, ranks), arithmetic)

    arrays = len(outcome.outputs) + len(outcome.gradients)
    try:
        outcomes = ranks.simulate(many.mesh, rank)
    except RankError as error:
        if isinstance(error.__cause__, Undefined):
            return Exact(prime, arrays, 0, str(error))
        raise
    edges = _edges(one, record, many, [each for _, each in outcomes], prime)
    first = edges.first or first_result(outcome, [each for each, _ in outcomes], many)
    return Exact(prime, arrays, edges.count, first)


def _edges(
    one: IRProgram, record: Record, many: IRProgram, records: list[Record], prime: int
) -> Edges:
    add = modulo(prime).add
    return compare_edges(one, record, many, records, np.array_equal, add)


def first_result(alone: Outcome, together: Sequence[Outcome], many: IRProgram) -> str | None:
    """The first output or gradient that differs, reassembled from all ranks."""
    where = cuts(many)
    pairs = [("", alone.outputs, [each.outputs for each in together])]
    pairs += [("d", alone.gradients, [each.gradients for each in together])]
    for prefix, expected, arrays in pairs:
        for name in dict.fromkeys([*expected, *arrays[0]]):
            if name not in expected or any(name not in each for each in arrays):
                return f"{prefix}{name} is missing"
            parts = [each[name] for each in arrays]
            whole = gather_shards(parts, where.get(name, ()), many.mesh)
            if whole.unlike is not None or not np.array_equal(whole.array, expected[name]):
                return f"{prefix}{name}"
    return None


# A pipeline against one device over the integers modulo primes: stages, and what they send.
#
# The interpreter of each stage runs in the runtime's pipeline, on residues. Sums over microbatches
# and stages are those of integers, and become residues at the end.


PARTS: Final = 2  # microbatches at least: gradients are sums over several


@dataclass(frozen=True, slots=True)
class InterpretedModule:
    """A program in the interpreter, called as a module is; it keeps the record of every run."""

    program: ir.IRProgram
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
    def single_device_run(self) -> tuple[StageRun, Sequence[Record]]:
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
        alone, _ = self.single_device_run
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

    def _edges(self, stage: ir.IRProgram, mine: Sequence[Record], part: int) -> Edges:
        _, records = self.single_device_run
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
        row = {
            value
            for stage in self.comparison.program.stages
            for value in _stage_values(stage.graphs)
        }
        return several - row | {saved for (saved, _), count in calls.items() if count > 1}

    def _results(self, stage: Program, runs: Sequence[StageRun]) -> Iterator[str]:
        """The first result of a stage that differs."""
        alone, _ = self.single_device_run
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
    """Compare a pipeline with one device on residues; raises Undefined like `exactly`."""
    residues = PipelineResidues.of(one, many, prime, seed)
    try:
        return residues.compare(residues.on_ranks())
    except RankError as error:
        if isinstance(error.__cause__, Undefined):
            return Exact(prime, 0, 0, str(error))
        raise


def _stage_values(stage: ir.IRProgram) -> tuple[ir.Value, ...]:
    """Return the stream that a stage sends; on one device it is the result of the last round."""
    return stage.main.outputs if stage.stage is not None and stage.stage.sends else ()


@dataclass(frozen=True)
class Floats:
    """The results in floats: of every backend's code, and of the traffic.

    For processes there are no edges.
    """

    agreements: Mapping[str, RankAgreement]
    edges: Edges | None = None
    sent: tuple[TrafficCheck, ...] = ()
    controls: tuple[Control, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether ranks agree with one device, and all that they send is counted and needed."""
        agree = all(one_agreement.first is None for one_agreement in self.agreements.values())
        counted = all(each.agrees for each in self.sent)
        edges = self.edges is None or self.edges.first is None
        return agree and edges and counted and not self.idle

    @property
    def idle(self) -> tuple[Control, ...]:
        """Collectives whose loss goes unnoticed, though they sum what is not zero."""
        return tuple(each for each in self.controls if each.verdict == "not needed")


@dataclass(frozen=True)
class RankEdges:
    """Ties, zeros and short axes that were tried on ranks, and those that were not, with reasons.

    `first` names the first edge at which ranks differ from one device, the backend and the array.
    """

    tried: tuple[str, ...]
    left_out: Mapping[str, str]
    first: str | None


@dataclass(frozen=True)
class RankProof:
    """The result for one block under one plan; None for parts that were not asked for."""

    program: Program
    case: Case
    floats: Floats | None = None
    exact: tuple[Exact, ...] | None = None
    on: Place = "simulated"
    edges: RankEdges | None = None

    @property
    def passed(self) -> bool:
        """Whether everything that was asked holds."""
        exact = all(each.first is None for each in self.exact or ())
        edges = self.edges is None or self.edges.first is None
        return exact and edges and (self.floats is None or self.floats.passed)


def select_proofs(
    project: Project, block: str | None, plan: str | None, settings: Settings
) -> Iterator[tuple[str, str | None, Settings]]:
    """Blocks and plans to prove: those named, or every plan that reaches a block that is not met.

    Each has the settings that concern it. A block whose text mentions ranks is one of them without
    a plan. Callers come first. Plans are those that the file itself names: one from an imported
    block need not fit its callers.
    """
    declared = project.main.plan_decls
    plans = list(dict.fromkeys(each.name.name for each in declared)) if plan is None else [plan]
    met: set[Span] = set()
    blocks = project.main.blocks[::-1] if block is None else ()
    for each_block in blocks or (named_block(project, block),):
        name = each_block.name.name
        if each_block.span in met and not takes_own(each_block, settings):
            continue
        own = concerning(project, name, settings, asked=block)
        typed = shape_project(project, name, {**mesh_sizes(project), **own})
        met.update(graph.span for graph in typed.graphs.values())
        if plan is not None:
            if block is not None or reaches(project, name, plan, own):
                yield name, plan, own
        elif typed.is_parallel:
            yield name, None, own
        else:
            yield from ((name, each, own) for each in plans if reaches(project, name, each, own))


def wanted_in_every_choice(
    project: Project, block: str | None, plan: str | None, settings: Settings
) -> Iterator[tuple[str, str | None, Settings]]:
    """The same with settings, in which every block meets all options that it can tell apart."""
    for met, chosen in choices_to_meet(project, settings, block):
        for name, each, own in select_proofs(project, met, plan, chosen):
            if each is None or reaches(project, name, each, own):
                yield name, each, own


def prove_ranks(
    project: Project,
    block: str,
    plan: str | None,
    settings: Settings,
    seed: int,
    backends: Sequence[str] = BACKENDS[:1],
    *,
    floats: bool = True,
    exact: bool = True,
    kernels: bool = False,
) -> RankProof:
    """Prove a block under a plan; raises DiagnosticError where it does not fit."""
    programs = prepared(project, block, plan, settings)
    one, many = programs.one, programs.many
    in_floats = _pipeline if many.stages else _floats
    return RankProof(
        many,
        programs.case,
        in_floats(one, many, seed, backends, kernels=kernels) if floats else None,
        tuple(_exact(many, prime, seed) for prime in PRIMES) if exact else None,
    )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A parallel program and its single-device program, at sizes that the ranks can share."""

    settings: Settings
    case: Case
    one: Program
    many: Program


def prepared(project: Project, block: str, plan: str | None, settings: Settings) -> Prepared:
    """The programs to prove; raises DiagnosticError where the plan does not fit."""
    chosen = case(project, block, plan, settings)
    many = compile_project(project, block, chosen.settings, plan)
    if many.single_device is None:
        raise InputError(f"{block} runs on one device here: choose a plan with --plan NAME")
    return Prepared(settings, chosen, many.on_one_device, many)


def _exact(many: Program, prime: int, seed: int) -> Exact:
    try:
        one = _single_with_rings(many)
        if many.stages:
            return exactly_in_stages(one, many, prime, seed)
        return exactly(one.graphs, many.graphs, prime, seed)
    except Undefined as error:
        return Exact(prime, 0, 0, f"on one device: {error}")


def _single_with_rings(program: Program) -> Program:
    """Return the program of one device with the operators that a plan chooses, such as rings.

    On one device they are what they replace, in reals; over residues exp has no properties, so
    only like is compared with like.
    """
    if program.single_device is None:
        return program
    return Program(run(SINGLE_AROUND, program.single_device).result, program.project)


def _pipeline(
    one: Program, many: Program, seed: int, backends: Sequence[str], *, kernels: bool
) -> Floats:
    return Floats(*prove_pipeline(one, many, seed, backends, kernels=kernels))


def _floats(
    one: Program, many: Program, seed: int, backends: Sequence[str], *, kernels: bool
) -> Floats:
    comparison = comparison_of(one, many, seed)
    agreements: dict[str, RankAgreement] = {}
    for backend in backends:
        module = one.on_arrays(backend, kernels=kernels)
        one_device = comparison.on_one_device(module)
        try:
            runs = comparison.on_ranks(many.on_arrays(backend, kernels=kernels))
        except RankError as error:
            agreements[backend] = RankAgreement(0, 0, float("inf"), str(error))
            continue
        agreements[backend] = comparison.compare(one_device, runs)
    sent, collectives = _sent(one, many, comparison, kernels=kernels)
    return Floats(agreements, _rank_edges(one, many, comparison), sent, collectives)


def _sent(
    one: Program, many: Program, comparison: RankComparison, *, kernels: bool
) -> tuple[tuple[TrafficCheck, ...], tuple[Control, ...]]:
    """The traffic of the NumPy code, counted, and a control for each of its collectives."""
    placed = many.fused_distributed if kernels else many.distributed
    assert placed
    module = many.load(kernels=kernels)
    alone = one.on_arrays(kernels=kernels)
    one_device = comparison.on_one_device(alone)
    try:
        runs = comparison.on_ranks(cast(Any, module))
    except RankError:
        return (), ()
    sent = count(placed, runs, bundled=kernels)
    if comparison.differs(one_device, runs):
        return sent, ()  # without a check that holds no control says anything
    source = many.source(kernels=kernels)

    def drawn(seed: int) -> Trial[RankRun]:
        again = comparison_of(one, many, seed)
        return _trial(module, source, again, again.on_one_device(alone))

    others = map(drawn, range(comparison.seed + 1, comparison.seed + 1 + DRAWS))
    return sent, tuple(controls(_trial(module, source, comparison, one_device), others))


def _trial(
    module: ModuleType, source: str, comparison: RankComparison, alone: RankRun
) -> Trial[RankRun]:
    """The code of ranks with the numbers of a comparison, and what one device makes of them."""
    return Trial(
        (module,),
        (source,),
        lambda around: comparison.on_ranks(cast(Any, module), around),
        lambda found: comparison.differences(alone, found),
        alone.gradients,
    )


def comparison_of(one: Program, many: Program, seed: int) -> RankComparison:
    """Return a comparison of ranks with one device, with random arrays for both programs."""
    params, inputs = interpret.initial(one.graphs, seed), invented.inputs(one.graphs, seed)
    outputs, _ = Interpreter(one.graphs, params, seed).forward(inputs)
    return RankComparison(many.graphs, params, inputs, invented.cotangents(outputs, seed), seed)


def _rank_edges(one: Program, many: Program, comparison: RankComparison) -> Edges:
    """Every edge of the interpreter's run on ranks against its run on one device."""
    one_device = _record(Interpreter(one.graphs, comparison.params, comparison.seed), comparison)

    def rank() -> Record:
        mine = comparison.each(lambda arrays: ranks.local_shards(arrays, comparison.cuts))
        mesh = cast(Mesh, ranks)
        return _record(Interpreter(many.graphs, mine.params, comparison.seed, mesh=mesh), mine)

    try:
        records = ranks.simulate(many.graphs.mesh, rank)
    except RankError as error:
        return Edges(0, str(error))
    held = one_device.reverse or one_device.values
    scale = max(float(np.linalg.norm(finite_part(x))) for x in held.values())

    def same(a: Array, b: Array) -> bool:
        return error_of(a, b, scale) <= probe.SAME_PROGRAM

    return compare_edges(one.graphs, one_device, many.graphs, records, same, FLOATS.add)


def _record(runner: Interpreter, comparison: RankComparison) -> Record:
    _, record = runner.forward(comparison.inputs)
    if runner.program.backwards:
        runner.backward(record, comparison.cotangents)
    return record
