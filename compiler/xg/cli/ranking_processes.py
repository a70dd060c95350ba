"""Proofs of parallel programs whose ranks are processes: torch code over gloo, on this machine.

To start torch takes seconds, so all programs of one mesh are tried by the same processes. Every
collective is compared with those of the other ranks before it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from xg.cli.ranks import Ranks
from xg.codegen.backend import on_processes
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import Processes
from xg.verify.plan_proof import Floats, Prepared, RankProof, comparison_of
from xg.verify.rank_comparison import Arrays, RankAgreement, RankComparison, RankRun, count
from xg_runtime.errors import RankError
from xg_runtime.ranks.task import Answer, Json

BACKEND: Final = on_processes().name


def prove_on_processes(
    found: Sequence[Prepared], seed: int, timeout: float, *, kernels: bool = False
) -> Iterator[tuple[Prepared, RankProof]]:
    """Prove programs, those of one mesh together; each comes with its proof.

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
        yield order, [_run(answer, number) for answer in answers]


def _run(answer: Answer, number: int) -> RankRun:
    """The results of a rank for one of the orders."""
    told = answer.facts["trials"][number]

    def named(kind: str, names: Sequence[str]) -> Arrays:
        return {name: answer.arrays[f"{number}/{kind}/{name}"] for name in names}

    outputs, gradients, moved = told["order"]
    sent = {(way, kind, over): (calls, size) for way, kind, over, calls, size in told["sent"]}
    arrays = named("outputs", outputs), named("gradients", gradients)
    return RankRun(*arrays, sent, named("moved", moved))
