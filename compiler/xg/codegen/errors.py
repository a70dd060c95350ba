"""Errors of generated code: libraries that it lacks, unwritten forms (XG05xx)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Problem, ProblemAt


class NoLibrary(Problem):
    """A backend whose library is not installed."""

    code = "XG0502"
    title = "{library} is not installed"
    fix = "pip install 'xg[{extra}]', or use {instead} code, which runs without it"
    library: str
    extra: str
    instead: str


class NoRanks(Problem):
    """A plan with a backend that only writes code for one device."""

    code = "XG0503"
    title = "{backend} code runs on one device, not on the ranks of a plan"
    fix = "choose {instead} instead"
    backend: str
    instead: str


class NoDecodeStep(Problem):
    """A decode step with a backend that has none."""

    code = "XG0504"
    title = "{backend} code computes whole texts, and has no decode step with a cache"
    fix = "choose {instead} instead"
    backend: str
    instead: str


class NoDevice(Problem):
    """A device that the backend cannot use."""

    code = "XG0506"
    title = "{backend} code does not run on {device}"
    fix = "choose {instead} instead, or leave --device out"
    backend: str
    device: str
    instead: str


class DeviceMissing(Problem):
    """A device that the backend does not find on this machine."""

    code = "XG0507"
    title = "{backend} finds no {device} here"
    fix = "leave --device out, or use a machine where torch.cuda.is_available() is True"
    backend: str
    device: str


class NoAutocast(Problem):
    """`--autocast` with a backend that does not have it."""

    code = "XG0508"
    title = "{backend} has no autocast: its products have the type of their operands"
    fix = "choose {instead} instead, or leave --autocast out"
    backend: str
    instead: str


class NoParallelStyle(ProblemAt):
    """A plan that torch's own calls cannot express."""

    code = "XG0505"
    title = "torch has no call for plan {plan}: {reason}"
    fix = "{instead}"
    plan: str
    reason: str
    instead: str
