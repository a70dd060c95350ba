"""Negative controls: every collective of a rank's code taken away, one after the other.

A check that nothing can fail proves nothing. Without one of its collectives a program has to differ
from that of one device; one that does not need it sends too much, and that is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import currentframe
from types import ModuleType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

import xg_runtime.ranks as ranks
from xg.proof.trial import Run, Trial
from xg_runtime.errors import RankError
from xg_runtime.module import Module

Array = NDArray[Any]
Verdict = Literal["needed", "zeros", "unused", "not needed"]
Site = tuple[int, int]  # a line of the module, and which of its instructions calls

NEGLIGIBLE: Final = 1e-14  # of what all that is sent at a site may be, to count as zeros


@dataclass(frozen=True, slots=True)
class Control:
    """One call of a collective in the code of a rank, and what became of the check without it.

    It is needed if the check failed. Else, what it sums may be nothing but zeros; or no rank may
    make use of what others send it, as where a plan gathers more than is used.
    """

    line: int
    kind: str
    over: str
    code: str
    verdict: Verdict


@dataclass(slots=True)
class _Seen:
    kind: str
    over: str
    largest: float = 0.0


@dataclass(slots=True)
class _Watch:
    """Stands between a module and its collectives: notes every site, and passes by at one."""

    skipped: Site | None = None
    sites: dict[Site, _Seen] = field(default_factory=dict[Site, _Seen])

    def stand_in(self, kind: str, real: Callable[..., Array]) -> Callable[..., Array]:
        """The collective as the module is to call it."""

        def called(x: Array, over: str, *along: int) -> Array:
            if ranks.size(over) == 1:
                return real(x, over, *along)
            site = _caller()
            seen = self.sites.setdefault(site, _Seen(kind, over))
            seen.largest = max(seen.largest, _largest(kind, x, over, *along))
            return without(kind, x, over, *along) if site == self.skipped else real(x, over, *along)

        return called


def _caller() -> Site:
    """Where the code of a rank stands that has called what calls this."""
    frame = currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    assert frame is not None
    return frame.f_lineno, frame.f_lasti


def without(kind: str, x: Array, over: str, *along: int) -> Array:
    """What a rank has where nothing is sent: its own for the whole, or for all parts of it."""
    match kind:
        case "all_gather":
            return np.concatenate([x] * ranks.size(over), along[0])
        case "reduce_scatter":
            return ranks.own(x, over, along[0])
        case "all_to_all":
            cut, joined = along
            return np.concatenate([ranks.own(x, over, cut)] * ranks.size(over), joined)
        case _:
            return x


def _largest(kind: str, x: Array, over: str, *along: int) -> float:
    """The largest number that others get, of what is summed."""
    if kind == "reduce_scatter":  # its own slice a rank does not send
        x = x - ranks.spread(ranks.own(x, over, along[0]), over, along[0])
    return float(np.abs(x).max(initial=0.0))


KINDS: Final = ("all_reduce", "all_reduce_max", "all_gather", "reduce_scatter", "all_to_all")


def controls(trial: Trial, module: ModuleType, source: str, alone: Run) -> Iterator[Control]:
    """A control for every site at which the module of a rank calls a collective, in its order."""
    lines = source.splitlines()
    for site, seen in _sites(trial, module).items():
        verdict: Verdict = "needed"
        if not _differs(trial, module, alone, site):
            verdict = _idle(seen, _scale(alone))
        yield Control(site[0], seen.kind, seen.over, lines[site[0] - 1].strip(), verdict)


def _idle(seen: _Seen, scale: float) -> Verdict:
    """Why nothing is lost without a collective; what only moves may bring what nobody reads."""
    if seen.largest <= NEGLIGIBLE * scale:
        return "zeros"
    return "unused" if seen.kind in ("all_gather", "all_to_all") else "not needed"


def _sites(trial: Trial, module: ModuleType) -> Mapping[Site, _Seen]:
    watch = _Watch()
    with _watched(module, watch):
        trial.together(_as_module(module))
    return watch.sites


def _differs(trial: Trial, module: ModuleType, alone: Run, site: Site) -> bool:
    with _watched(module, _Watch(site)):
        try:
            return trial.differs(alone, trial.together(_as_module(module)))
        except RankError:
            return True


@contextmanager
def _watched(module: ModuleType, watch: _Watch) -> Generator[None]:
    real = {kind: getattr(module, kind) for kind in KINDS if hasattr(module, kind)}
    try:
        for kind, function in real.items():
            setattr(module, kind, watch.stand_in(kind, function))
        yield
    finally:
        for kind, function in real.items():
            setattr(module, kind, function)


def _as_module(module: ModuleType) -> Module:
    found: Any = module
    return found


def _scale(alone: Run) -> float:
    return max(
        (float(np.abs(each).max(initial=0.0)) for each in alone.gradients.values()), default=1
    )
