"""Proofs of parallel programs whose ranks are processes: torch code over gloo, on this machine.

To start torch takes seconds, so all programs of one mesh are tried by the same processes. Every
collective is compared with those of the other ranks before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

from xg.cli.computing import Ranks
from xg.codegen.backend import on_processes
from xg.diagnostics.lazy_dataclass import asdict, dataclass
from xg.diagnostics.limits import Processes
from xg.verify.pipeline_proof import PipelineComparison, StageRun, checked
from xg.verify.plan_proof import Floats, Prepared, RankProof, comparison_of
from xg.verify.rank_comparison import (
    Arrays,
    RankAgreement,
    RankComparison,
    RankRun,
    TrafficCheck,
    count,
)
from xg_runtime.cells import SCHEDULES
from xg_runtime.errors import RankError
from xg_runtime.ranks.task import Answer, Json

BACKEND: Final = on_processes().name


def prove_on_processes(
    found: Sequence[Prepared], seed: int, timeout: float, *, kernels: bool = False
) -> Iterator[tuple[Prepared, RankProof]]:
    """Prove programs, grouped by their mesh, and yield each with its proof.

    Raises RankError where a rank dies or hangs, DiagnosticError for more ranks than are allowed.
    """
    groups: dict[tuple[tuple[str, int], ...], list[Prepared]] = {}
    for each in found:
        groups.setdefault(tuple(each.many.graphs.mesh.items()), []).append(each)
    for mesh in groups:
        Processes.check(prod(size for _, size in mesh), None)
    for mesh, members in groups.items():
        ranks = Ranks("processes", dict(mesh), timeout, checked=True)
        orders = [_Order.of(each, seed, kernels=kernels) for each in members]
        yield from ((order.what, order.judge(runs)) for order, runs in _all(ranks, orders))


@dataclass(frozen=True)
class _Order:
    """The request to the ranks for one program: the code, and its inputs."""

    what: Prepared
    comparison: RankComparison
    source: str
    kernels: bool

    @classmethod
    def of(cls, what: Prepared, seed: int, *, kernels: bool) -> _Order:
        source = what.many.source(BACKEND, kernels=kernels)
        return cls(what, comparison_of(what.one, what.many, seed), source, kernels)

    @property
    def options(self) -> Json:
        """The request without its arrays."""
        return {
            "source": self.source,
            "seed": self.comparison.seed,
            "kinds": list(self.comparison.arrays),
        }

    def judge(self, runs: Sequence[RankRun] | RankError) -> RankProof:
        """The proof, by what every rank has found."""
        what, comparison = self.what, self.comparison
        if isinstance(runs, RankError):
            failed = RankAgreement(0, 0, float("inf"), str(runs))
            return RankProof(what.many, what.case, Floats({BACKEND: failed}), on="processes")
        single = comparison.on_one_device(what.one.on_arrays(BACKEND, kernels=self.kernels))
        placed = what.many.fused_distributed if self.kernels else what.many.distributed
        assert placed
        sent = count(placed, runs, bundled=self.kernels)
        floats = Floats({BACKEND: comparison.compare(single, runs)}, sent=sent)
        return RankProof(what.many, what.case, floats, on="processes")


def _all(
    ranks: Ranks, orders: Sequence[_Order]
) -> Iterator[tuple[_Order, Sequence[RankRun] | RankError]]:
    """The results of all ranks for every order; an error in one does not hide the others."""
    arrays = {
        f"{number}/{kind}/{name}": array
        for number, order in enumerate(orders)
        for kind, by_name in order.comparison.arrays.items()
        for name, array in by_name.items()
    }
    options = {"backend": BACKEND, "trials": [order.options for order in orders]}
    try:
        answers = ranks.do("verify", options, arrays)
    except RankError as error:
        if "kind" not in error.facts:  # a rank is gone, or hangs
            raise
        if len(orders) == 1:
            yield orders[0], error
        else:
            for order in orders:
                yield from _all(ranks, [order])
        return
    for number, order in enumerate(orders):
        yield order, [_rank_run(answer, number) for answer in answers]


def _rank_run(answer: Answer, number: int) -> RankRun:
    """The results of a rank for one of the orders."""
    told = answer.facts["trials"][number]

    def named(kind: str, names: Sequence[str]) -> Arrays:
        return {name: answer.arrays[f"{number}/{kind}/{name}"] for name in names}

    outputs, gradients, moved = told["order"]
    sent = {(way, kind, over): (calls, size) for way, kind, over, calls, size in told["sent"]}
    arrays = named("outputs", outputs), named("gradients", gradients)
    return RankRun(*arrays, sent, named("moved", moved))


# Proofs of pipelines whose ranks are processes: torch code over gloo, in each order of cells.


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
        runs = [_stage_run(answer, schedule, len(comparison.parts)) for answer in answers]
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


def _stage_run(answer: Answer, schedule: str, parts: int) -> StageRun:
    """The results of a rank for one order of cells."""
    sent = {(way, kind, over): (calls, n) for way, kind, over, calls, n in answer.facts[schedule]}
    outputs = tuple(_arrays_below(answer, f"{schedule}/outputs{part}/") for part in range(parts))
    gradients, params = (
        _arrays_below(answer, f"{schedule}/{kind}/") for kind in ("gradients", "params")
    )
    return StageRun(outputs, gradients, sent, params)


def _arrays_below(answer: Answer, prefix: str) -> Mapping[str, Any]:
    held = answer.arrays.items()
    return {name.removeprefix(prefix): each for name, each in held if name.startswith(prefix)}
