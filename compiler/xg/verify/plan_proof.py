"""One proof of a parallel program: the code of its ranks against one device, floats and residues.

Parameters are drawn at random and dropout is on, as where gradients are proven. Ranks are simulated
here; `ranking_processes` has them as processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span
from xg.driver import BACKENDS, Program, compile_project
from xg.frontend.choices import choices_to_meet
from xg.frontend.project import Project
from xg.frontend.typed import Settings, concerning, named_block, shape_project, takes_own
from xg.passes.pipelines import SINGLE_AROUND, run
from xg.verify.controls import DRAWS, Control, Trial, controls
from xg.verify.first_edge import Edges, compare_edges
from xg.verify.pipeline_proof import prove_pipeline
from xg.verify.pipeline_residues import exactly_in_stages
from xg.verify.proof_sizes import Case, case, mesh_sizes, reaches
from xg.verify.rank_comparison import (
    RankAgreement,
    RankComparison,
    RankRun,
    TrafficCheck,
    count,
    error_of,
    finite_part,
)
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg.verify.reference.evaluate import FLOATS, Mesh
from xg.verify.reference.interpret import BodyCache, Interpreter, Record
from xg.verify.reference.modular.residues import PRIMES, Undefined
from xg.verify.residues import Exact, exactly
from xg_runtime import agreement
from xg_runtime.errors import InputError, RankError
from xg_runtime.module import Array
from xg_runtime.ranks.run_task import Place


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
class RankProof:
    """The result for one block under one plan; None for parts that were not asked for."""

    program: Program
    case: Case
    floats: Floats | None = None
    exact: tuple[Exact, ...] | None = None
    on: Place = "simulated"

    @property
    def passed(self) -> bool:
        """Whether everything that was asked holds."""
        exact = all(each.first is None for each in self.exact or ())
        return exact and (self.floats is None or self.floats.passed)


def wanted(
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
    blocks = project.main.blocks[::-1] if block is None else [named_block(project, block)]
    for each_block in blocks:
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
        for name, each, own in wanted(project, met, plan, chosen):
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
    """A parallel program and that of one device, at sizes that its ranks can share."""

    settings: Settings
    case: Case
    one: Program
    many: Program


def prepared(project: Project, block: str, plan: str | None, settings: Settings) -> Prepared:
    """The programs to prove; raises DiagnosticError where the plan does not fit."""
    chosen = case(project, block, plan, settings)
    many = compile_project(project, block, chosen.settings, plan)
    if many.single_device is None:
        raise InputError(f"{block} runs on one device: say --plan NAME")
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
    """A compiled program on one device with the operators that a plan chooses, as rings have.

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
    return Floats(agreements, _edges(one, many, comparison), sent, collectives)


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
    """Both programs with what they are given."""
    params, inputs = interpret.initial(one.graphs, seed), invented.inputs(one.graphs, seed)
    outputs, _ = Interpreter(one.graphs, params, seed).forward(inputs)
    return RankComparison(many.graphs, params, inputs, invented.cotangents(outputs, seed), seed)


def _edges(one: Program, many: Program, comparison: RankComparison) -> Edges:
    """Every edge of the interpreter's run on ranks against its run on one device."""
    one_device = _record(Interpreter(one.graphs, comparison.params, comparison.seed), comparison)
    traces = BodyCache()

    def rank() -> Record:
        mine = comparison.each(lambda arrays: ranks.local_shards(arrays, comparison.cuts))
        mesh = cast(Mesh, ranks)
        return _record(
            Interpreter(many.graphs, mine.params, comparison.seed, traces=traces, mesh=mesh), mine
        )

    try:
        records = ranks.simulate(many.graphs.mesh, rank)
    except RankError as error:
        return Edges(0, str(error))
    held = one_device.reverse or one_device.values
    scale = max(float(np.linalg.norm(finite_part(x))) for x in held.values())

    def same(a: Array, b: Array) -> bool:
        return error_of(a, b, scale) <= agreement.SAME_PROGRAM

    return compare_edges(one.graphs, one_device, many.graphs, records, same, FLOATS.add)


def _record(runner: Interpreter, comparison: RankComparison) -> Record:
    _, record = runner.forward(comparison.inputs)
    if runner.program.backwards:
        runner.backward(record, comparison.cotangents)
    return record
