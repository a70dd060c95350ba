"""Negative controls: every collective of a rank's code taken away, one after the other.

A check that nothing can fail proves nothing. Without one of its collectives a program has to differ
from that of one device; one that does not need it sends too much, and that is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from inspect import currentframe
from types import ModuleType
from typing import Any, Final, Literal

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.lazy_dataclass import dataclass
from xg.verify.rank_comparison import RankComparison, RankRun
from xg_runtime.errors import RankError
from xg_runtime.module import Module
from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.call import Call
from xg_runtime.ranks.mesh import Entered, Mesh, Pending

Verdict = Literal["needed", "zeros", "unused", "not needed"]
Site = tuple[int, int, str]  # a line of the module, which of its instructions calls, a mesh axis

NEGLIGIBLE: Final = 1e-14  # of what all that is sent at a site may be, to count as zeros


@dataclass(frozen=True, slots=True)
class Control:
    """One call of a collective in the code of a rank, and the result of the check without it.

    It is needed if the check failed. Else all that it sums may be zeros, or terms of gradients that
    are zero; or no rank may use the data that it receives, as where a plan gathers more than is
    used.
    """

    line: int
    kind: str
    over: str
    code: str
    verdict: Verdict


@dataclass(slots=True)
class _Traffic:
    kind: str
    over: str
    largest: float = 0.0


@dataclass(slots=True)
class _Watch:
    """Every site that was met, one at which nothing is sent, and one whose result is made wrong."""

    module: ModuleType
    skipped: Site | None = None
    disturbed: Site | None = None
    sites: dict[Site, _Traffic] = field(default_factory=dict[Site, _Traffic])

    def around(self) -> _Watched:
        """The mesh of the running rank, watched."""
        return _Watched(ranks.current(), self)


class _Watched(Entered):
    """A mesh that notes where the module calls it, also through helpers such as sums."""

    def __init__(self, real: Mesh, watch: _Watch) -> None:
        self._real = real
        self._watch = watch
        self.sizes, self.counters = real.sizes, real.counters
        self.rank, self.size = real.rank, real.size

    def start(self, call: Call, x: Tensor, *, donate: bool = False) -> Pending:
        """Begin a collective, or keep what this rank has of it."""
        line, instruction = _caller(self._watch.module)
        site = (line, instruction, call.axis)
        seen = self._watch.sites.setdefault(site, _Traffic(call.kind, call.axis))
        seen.largest = max(seen.largest, _largest(call, x, self.rank(call.axis)))
        if site == self._watch.disturbed:
            return _Wrong(self._real.start(call, x, donate=donate))
        if site != self._watch.skipped:
            return self._real.start(call, x, donate=donate)
        return _Kept(without(call, x, self.rank(call.axis), self.size(call.axis)))


@dataclass(frozen=True, slots=True)
class _Kept:
    """A collective in which nothing is sent."""

    result: Tensor

    def wait(self) -> Tensor:
        return self.result


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A collective of which every rank gets something else."""

    real: Pending

    def wait(self) -> Tensor:
        return self.real.wait() + 1


def _caller(module: ModuleType) -> tuple[int, int]:
    """The line of rank code that is running."""
    frame = currentframe()
    while frame is not None and frame.f_globals is not module.__dict__:
        frame = frame.f_back
    assert frame is not None
    return frame.f_lineno, frame.f_lasti


def without(call: Call, x: Tensor, place: int, size: int) -> Tensor:
    """The result on a rank if nothing is sent: its own part for the whole, or for all its parts."""
    match call.kind:
        case "all_gather":
            return array_ops(x).stack([x] * size)
        case "reduce_scatter":
            return array_ops(x).owned(x[place])
        case "all_to_all":
            return array_ops(x).stack([x[place]] * size)
        case "all_reduce" | "all_reduce_max":
            return array_ops(x).owned(x)


def _largest(call: Call, x: Tensor, place: int) -> float:
    """The largest number that others receive, of all that is summed."""
    sent = np.abs(np.asarray(x))
    if call.kind == "reduce_scatter":  # its own slice a rank does not send
        sent = np.delete(sent, place, axis=0)
    return float(sent.max(initial=0.0))


def controls(
    comparison: RankComparison, module: ModuleType, source: str, single: RankRun
) -> Iterator[Control]:
    """A control for every site at which the module of a rank calls a collective, in its order."""
    lines = source.splitlines()
    for site, seen in _sites(comparison, module).items():
        verdict: Verdict = "needed"
        if not _differs(comparison, module, single, site):
            verdict = _idle(seen, _scale(single))
            if verdict == "not needed" and _is_of_zeros(comparison, module, single, site):
                verdict = "zeros"
        yield Control(site[0], seen.kind, seen.over, lines[site[0] - 1].strip(), verdict)


def _idle(seen: _Traffic, scale: float) -> Verdict:
    """Why nothing changes without a collective; a move may bring data that is not read."""
    if seen.largest <= NEGLIGIBLE * scale:
        return "zeros"
    return "unused" if seen.kind in ("all_gather", "all_to_all") else "not needed"


def _sites(comparison: RankComparison, module: ModuleType) -> Mapping[Site, _Traffic]:
    watch = _Watch(module)
    comparison.on_ranks(_as_module(module), watch.around)
    return watch.sites


def _differs(comparison: RankComparison, module: ModuleType, single: RankRun, site: Site) -> bool:
    watch = _Watch(module, site)
    try:
        return comparison.differs(single, comparison.on_ranks(_as_module(module), watch.around))
    except RankError:
        return True


def _is_of_zeros(
    comparison: RankComparison, module: ModuleType, single: RankRun, site: Site
) -> bool:
    """Whether all that depends on what is sent at a site are gradients that are zero.

    Terms of such a one need not be zeros, where a sum over another mesh axis follows.
    """
    watch = _Watch(module, disturbed=site)
    try:
        runs = comparison.on_ranks(_as_module(module), watch.around)
    except RankError:
        return False
    bound = NEGLIGIBLE * _scale(single)
    zero = {f"d{n}" for n, g in single.gradients.items() if np.abs(g).max(initial=0.0) <= bound}
    wrong = {
        difference.name
        for difference in comparison.differences(single, runs)
        if difference.is_wrong
    }
    return bool(wrong) and wrong <= zero


def _as_module(module: ModuleType) -> Module:
    any_module: Any = module
    return any_module


def _scale(single: RankRun) -> float:
    return max(
        (float(np.abs(each).max(initial=0.0)) for each in single.gradients.values()), default=1
    )
