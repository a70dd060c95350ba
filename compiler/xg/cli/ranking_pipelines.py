"""Proofs of pipelines whose ranks are processes: torch code over gloo, in each order of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from typing import Any

from xg.cli.ranks import Ranks
from xg.codegen.backend import on_processes
from xg.diagnostics.limits import Processes
from xg.verify.pipeline_proof import PipelineComparison, StageRun, checked
from xg.verify.plan_proof import Floats, Prepared, RankProof
from xg.verify.rank_comparison import Arrays, RankAgreement, TrafficCheck
from xg_runtime.cells import SCHEDULES
from xg_runtime.errors import RankError
from xg_runtime.ranks.task import Answer, Json


def prove_pipeline_on_processes(
    found: Prepared, seed: int, timeout: float, *, kernels: bool
) -> RankProof:
    """Prove a pipeline; raises RankError where a rank dies or hangs, DiagnosticError for limits."""
    many, backend = found.many, on_processes().name
    Processes.check(prod(many.mesh.values()), None)
    comparison = PipelineComparison.of(found.one, many, seed, next(iter(SCHEDULES)))
    alone = comparison.on_one_device(found.one.on_arrays(backend, kernels=kernels))
    ranks = Ranks("processes", many.mesh, timeout, checked=True)
    try:
        answers = ranks.do(
            "verify_stages", _options(comparison, kernels=kernels), _arrays(comparison)
        )
    except RankError as error:
        if "kind" not in error.facts:  # a rank is gone, or hangs
            raise
        failed = RankAgreement(0, 0, float("inf"), str(error))
        return RankProof(many, found.case, Floats({backend: failed}), on="processes")
    worst: RankAgreement | None = None
    sent: tuple[TrafficCheck, ...] = ()
    for schedule in SCHEDULES:
        runs = [_run(answer, schedule, len(comparison.parts)) for answer in answers]
        agreement = comparison.compare(alone, runs)
        if worst is None or (worst.first is None and agreement.error >= worst.error):
            worst = agreement
        sent = tuple(checked(many, runs, len(comparison.parts), kernels=kernels))
        if not all(each.agrees for each in sent):
            break
    assert worst is not None
    return RankProof(many, found.case, Floats({backend: worst}, sent=sent), on="processes")


def _options(comparison: PipelineComparison, *, kernels: bool) -> Json:
    """The code of every stage, and how it is run."""
    backend = on_processes().name
    return {
        "backend": backend,
        "sources": [each.source(backend, kernels=kernels) for each in comparison.program.stages],
        "links": [asdict(link) for link in comparison.links],
        "cuts": comparison.cuts,
        "seeds": [part.seed for part in comparison.parts],
        "schedules": list(SCHEDULES),
    }


def _arrays(comparison: PipelineComparison) -> dict[str, Any]:
    kinds: dict[str, Arrays] = {"params": comparison.params}
    for number, part in enumerate(comparison.parts):
        kinds |= {f"inputs{number}": part.inputs, f"cotangents{number}": part.cotangents}
    return {f"{kind}/{name}": each for kind, held in kinds.items() for name, each in held.items()}


def _run(answer: Answer, schedule: str, parts: int) -> StageRun:
    """The results of a rank for one order of cells."""
    sent = {(way, kind, over): (calls, n) for way, kind, over, calls, n in answer.facts[schedule]}
    outputs = tuple(_named(answer, f"{schedule}/outputs{part}/") for part in range(parts))
    gradients, params = (_named(answer, f"{schedule}/{kind}/") for kind in ("gradients", "params"))
    return StageRun(outputs, gradients, sent, params)


def _named(answer: Answer, prefix: str) -> Mapping[str, Any]:
    held = answer.arrays.items()
    return {name.removeprefix(prefix): each for name, each in held if name.startswith(prefix)}
