"""Errors of sizes that need numbers (XG0501), or have them (XG04xx)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, Label, ProblemAt, Span
from xg.ir.dim import DimError, SumDivides


class NotWhole(ProblemAt):
    """A size that its parts do not divide."""

    code = "XG0401"
    title = "{subject}{message}"
    name: str
    message: str
    divisor: str  # a dim that may have another number; none where it is divided by numbers
    help: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        return f"{self.name} = " if self.name else ""


def no_size(span: Span, error: DimError) -> NotWhole:
    """Return the error for a dim that is not a size once the dims in it are expanded."""
    help = ("declare a dim for the quotient, such as `dim K`",)
    return NotWhole(span, "", str(error), "", help if isinstance(error, SumDivides) else ())


class UnboundSize(ProblemAt):
    """A symbol that code needs as a number, and that has none."""

    code = "XG0501"
    title = "no size is set for {name}"
    label = "{here}"
    fix = "give it a default, dim {name} = …, or --set {name}=…"
    name: str
    here: str = "in this block"


class TooShort(ProblemAt):
    """An axis of size 0 or less, or a negative number of rounds."""

    code = "XG0402"
    size: str
    number: int
    least: int

    def diagnostic(self) -> Diagnostic:
        """Name the size."""
        message = f"{self.size} = {self.number}: it is at least {self.least}"
        if self.size == str(self.number):
            message = (
                f"this axis has {self.number} positions; every axis needs at least {self.least}"
            )
        return self.report(message, Label(self.span))


class TooLong(ProblemAt):
    """A size that is larger than an operator allows."""

    code = "XG0403"
    title = "{smaller} is more than {larger}"
    notes = "{why}"
    smaller: str
    larger: str
    why: str


class WrongWindows(ProblemAt):
    """A label with the wrong number of windows."""

    code = "XG0406"
    title = "the label gives {given} windows, but an axis of {axis} has {has}"
    given: str
    axis: str
    has: int
    help: tuple[str, ...]


class BeyondLimits(ProblemAt):
    """A number, computed from sizes, that the operator does not allow."""

    code = "XG0407"
    title = "{message}"
    message: str
    help: tuple[str, ...]  # the numbers that it may have, and what made this one


class NoValue(ProblemAt):
    """A number of an operator that has no value at these sizes."""

    code = "XG0405"
    title = "{number} has no value: {why}"
    number: str
    why: str
