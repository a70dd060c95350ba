"""Errors of generated code: libraries that it lacks, unwritten forms (XG05xx)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Problem, ProblemAt


class NoLibrary(Problem):
    """Code of a backend that is to be run where its library is not installed."""

    code = "XG0502"
    title = "{library} is not installed"
    fix = "pip install 'xg[{extra}]'; code in {instead} runs without"
    library: str
    extra: str
    instead: str


class NoRanks(Problem):
    """A plan for a backend that writes code for one device only."""

    code = "XG0503"
    title = "{backend} code is for one device, and not for the ranks of a plan"
    fix = "choose {instead} instead"
    backend: str
    instead: str


class NoDecodeStep(Problem):
    """A decode step in a backend that writes none."""

    code = "XG0504"
    title = "{backend} code computes whole texts, and has no step that adds positions to a cache"
    fix = "choose {instead} instead"
    backend: str
    instead: str


class NoDevice(Problem):
    """A device for a backend that does not compute there."""

    code = "XG0506"
    title = "{backend} code does not compute on {device}"
    fix = "choose {instead} instead, or leave --device out"
    backend: str
    device: str
    instead: str


class DeviceMissing(Problem):
    """A device that a backend does not find."""

    code = "XG0507"
    title = "{backend} finds no {device} here"
    fix = "leave --device out, or go where torch.cuda.is_available() is True"
    backend: str
    device: str


class NoAutocast(Problem):
    """A type of products for a backend whose products have that of their operands."""

    code = "XG0508"
    title = "{backend} has no autocast: its products have the type of their operands"
    fix = "choose {instead} instead, or leave --autocast out"
    backend: str
    instead: str


class NoParallelStyle(ProblemAt):
    """A plan that torch's calls cannot give a module."""

    code = "XG0505"
    title = "torch has no call for plan {plan}: {reason}"
    fix = "{instead}"
    plan: str
    reason: str
    instead: str
