"""Negative controls: every collective and every send of ranks taken away, one after the other.

A check that nothing can fail proves nothing. Without one of its collectives a program has to differ
from that of one device; one that does not need it sends too much, and that is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import currentframe
from types import ModuleType
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.verify.rank_comparison import ArrayDifference, Arrays
from xg_runtime.errors import RankError
from xg_runtime.ranks import kinds
from xg_runtime.ranks.array_ops import Tensor
from xg_runtime.ranks.call import Call, Incoming, Outgoing
from xg_runtime.ranks.kinds import Kind
from xg_runtime.ranks.mesh import Entered, Exchange, Mesh, Pending

Verdict = Literal["needed", "zeros", "unused", "not needed"]
# A module, a line of it, which of its instructions calls, a mesh axis; of a send its two ends, as
# the numbers of stages or ranks, and the pass.
Site = tuple[int, int, int, str]
R = TypeVar("R")

SEND: Final = -1  # in place of the number of a module
DRAWS: Final = 12  # of other numbers, before a collective is called not needed
NEGLIGIBLE: Final = 1e-14  # of what all that is sent at a site may be, to count as zeros


@dataclass(frozen=True, slots=True)
class Control:
    """One call of a collective in the code of a rank, and the result of the check without it.

    A send, which has no line, is taken away by sending zeros.

    It is needed if a number is wrong without it, of these draws or of others: a ReLU that is dead
    at all of one draw hides what goes into it. A warning of NumPy or an exception is no number, and
    shows nothing. Otherwise all that it sums may be zeros, or what it sends may only reach terms
    that are zero; or no rank may use the data that it receives, as where a plan gathers more than
    is used.
    """

    line: int
    kind: str
    over: str
    code: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Trial(Generic[R]):
    """Modules of ranks with their sources, how they are run, and how runs are judged.

    `gradients` are those of one device.
    """

    modules: Sequence[ModuleType]
    sources: Sequence[str]
    run: Callable[[Callable[[], AbstractContextManager[Any]]], Sequence[R]]
    differences: Callable[[Sequence[R]], Iterator[ArrayDifference]]
    gradients: Arrays

    def differs(self, runs: Sequence[R]) -> bool:
        """Whether any array is wrong."""
        return any(difference.is_wrong for difference in self.differences(runs))


@dataclass(slots=True)
class _Traffic:
    kind: Kind
    over: str
    largest: float = 0.0


@dataclass(slots=True)
class _Watch:
    """Every site that was met, one at which nothing is sent, and one whose result is made wrong."""

    modules: Sequence[ModuleType]
    skipped: Site | None = None
    disturbed: Site | None = None
    sites: dict[Site, _Traffic] = field(default_factory=dict[Site, _Traffic])

    @contextmanager
    def around(self) -> Generator[None]:
        """Watch the mesh of the running rank; NumPy's warnings, which may be errors, are off."""
        with np.errstate(all="ignore"), _Watched(ranks.current(), self):
            yield


class _Watched(Entered):
    """A mesh that notes where the module calls it, also through helpers such as sums."""

    def __init__(self, real: Mesh, watch: _Watch) -> None:
        self._real = real
        self._watch = watch
        self.sizes, self.counters = real.sizes, real.counters
        self.rank, self.size = real.rank, real.size
        self.diverge, self.flush = real.diverge, real.flush

    def start(self, call: Call, x: Tensor, *, donate: bool = False) -> Pending:
        """Begin a collective, or keep what this rank has of it."""
        site = (*_caller(self._watch.modules), call.axis)
        seen = self._watch.sites.setdefault(site, _Traffic(call.kind, call.axis))
        seen.largest = max(seen.largest, _largest(call, x, self.rank(call.axis)))
        if site == self._watch.disturbed:
            return _Wrong(self._real.start(call, x, donate=donate))
        if site != self._watch.skipped:
            return self._real.start(call, x, donate=donate)
        return _Kept(
            call.kind.result_without_sending(x, self.rank(call.axis), self.size(call.axis))
        )

    def exchange(
        self, axis: str, sends: Sequence[Outgoing], receives: Sequence[Incoming]
    ) -> Exchange:
        """Exchange messages with other stages; send zeros or a wrong message at the chosen site."""
        return self._real.exchange(axis, [self._seen(each, axis) for each in sends], receives)

    def _seen(self, each: Outgoing, axis: str) -> Outgoing:
        """Note a message, and return what is to be sent in its place."""
        source, way, x = self.counters.stage, self.counters.current, each.x
        if source is None:
            ends, name = (self.rank(axis), each.place), each.name
        else:
            ends, name = (source, source + (1 if way == "forward" else -1)), ""
        site = (SEND, *ends, f"{axis} {way} {name}".rstrip())
        seen = self._watch.sites.setdefault(site, _Traffic(kinds.SEND, axis))
        seen.largest = max(seen.largest, float(np.abs(np.asarray(x)).max(initial=0.0)))
        wrong = x * 0 if site == self._watch.skipped else x
        return replace(each, x=wrong + 1 if site == self._watch.disturbed else wrong)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A collective in which nothing is sent."""

    result: Tensor

    def wait(self) -> Tensor:
        return self.result


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A collective that gives every rank a wrong result."""

    real: Pending

    def wait(self) -> Tensor:
        return self.real.wait() + 1


def _caller(modules: Sequence[ModuleType]) -> tuple[int, int, int]:
    """The module and the line of rank code that is running."""
    frame = currentframe()
    while frame is not None:
        names = frame.f_globals
        for number, module in enumerate(modules):
            if names is module.__dict__:
                return number, frame.f_lineno, frame.f_lasti
        frame = frame.f_back
    raise AssertionError("a collective is called by a module")


def _largest(call: Call, x: Tensor, place: int) -> float:
    """The largest number that others receive, of all that is summed."""
    sent = np.abs(np.asarray(x))
    if call.kind.sums and call.kind.operand_rows:  # a rank does not send its own slice
        sent = np.delete(sent, place, axis=0)
    return float(sent.max(initial=0.0))


def controls(trial: Trial[R], others: Iterable[Trial[R]] = ()) -> Iterator[Control]:
    """A control for every site at which ranks call a collective or send, in their order.

    `others` are trials of the same modules with other numbers, for what these do not show.
    """
    draws = _Draws(iter(others))
    for site, seen in _sites(trial).items():
        verdict: Verdict = "needed"
        if not _differs(trial, site):
            verdict = _idle(seen, _scale(trial))
            if verdict == "not needed" and _is_of_zeros(trial, site):
                verdict = "zeros"
            if verdict == "not needed" and any(_differs(each, site) for each in draws.sound()):
                verdict = "needed"
            if verdict == "not needed" and _reaches_rounding(trial, site):
                verdict = "zeros"
        module, line, _, _ = site
        code = _ends(site) if module == SEND else trial.sources[module].splitlines()[line - 1]
        yield Control(
            0 if module == SEND else line, seen.kind.name, seen.over, code.strip(), verdict
        )


@dataclass(slots=True)
class _Draws(Generic[R]):
    """Trials with other numbers, each made once, when the first site asks for it."""

    rest: Iterator[Trial[R]]
    made: list[Trial[R]] = field(default_factory=list["Trial[R]"])

    def sound(self) -> Iterator[Trial[R]]:
        """Yield the trials that hold with every collective; a failing trial shows nothing."""
        yield from self.made
        for each in self.rest:
            if _holds(each):
                self.made.append(each)
                yield each


def _holds(trial: Trial[R]) -> bool:
    try:
        return not trial.differs(trial.run(nullcontext))
    except RankError:
        return False


def _ends(site: Site) -> str:
    """A send in words."""
    _, source, target, called = site
    way = called.partition(" ")[2]
    kind = "rank" if way.startswith("shared") else "stage"
    return f"{way}, {kind} {source} to {kind} {target}"


def _idle(seen: _Traffic, scale: float) -> Verdict:
    """Why nothing changes without a collective; a move may bring data that is not read."""
    if seen.largest <= NEGLIGIBLE * scale:
        return "zeros"
    return "unused" if seen.kind.result_rows else "not needed"


def _sites(trial: Trial[R]) -> Mapping[Site, _Traffic]:
    watch = _Watch(trial.modules)
    trial.run(watch.around)
    return watch.sites


def _differs(trial: Trial[R], site: Site) -> bool:
    watch = _Watch(trial.modules, site)
    try:
        return trial.differs(trial.run(watch.around))
    except RankError:
        return False


def _is_of_zeros(trial: Trial[R], site: Site) -> bool:
    """Whether all that depends on what is sent at a site are gradients that are zero.

    Terms of such a one need not be zeros, where a sum over another mesh axis follows.
    """
    watch = _Watch(trial.modules, disturbed=site)
    try:
        runs = trial.run(watch.around)
    except RankError:
        return False
    bound = NEGLIGIBLE * _scale(trial)
    zero = {f"d{n}" for n, g in trial.gradients.items() if np.abs(g).max(initial=0.0) <= bound}
    wrong = {each.name for each in trial.differences(runs) if each.is_wrong}
    return bool(wrong) and wrong <= zero


def _reaches_rounding(trial: Trial[R], site: Site) -> bool:
    """Whether something else in place of what is sent at a site changes rounding alone.

    The gradient of log-sum-exp through its maximum is such a term: zero but for rounding, and
    divided by the number of equal maxima, which ranks sum.
    """
    watch = _Watch(trial.modules, disturbed=site)
    try:
        wrong = list(trial.differences(trial.run(watch.around)))
    except RankError:
        return False
    right = trial.differences(trial.run(nullcontext))
    rounding = [each.error for each in wrong] != [each.error for each in right]
    return rounding and not any(each.is_wrong for each in wrong)


def _scale(trial: Trial[R]) -> float:
    return max(
        (float(np.abs(each).max(initial=0.0)) for each in trial.gradients.values()), default=1
    )
