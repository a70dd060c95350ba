"""Errors of sizes, once they have numbers (XG04xx)."""

from __future__ import annotations

from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span


@problem_kind
class NotWhole(Problem):
    """A size that its parts do not divide."""

    code: ClassVar[str] = "XG0401"
    span: Span
    name: str
    message: str
    allowed: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        """Say which numbers would do."""
        what = f"{self.name} = " if self.name else ""
        return self.report(f"{what}{self.message}", Label(self.span), help=self.allowed)


@problem_kind
class TooShort(Problem):
    """An axis without positions, or a repetition less often than never."""

    code: ClassVar[str] = "XG0402"
    span: Span
    size: str
    number: int
    least: int

    def diagnostic(self) -> Diagnostic:
        """Name the size."""
        message = f"{self.size} = {self.number}: it is at least {self.least}"
        if self.size == str(self.number):
            message = f"this axis has {self.number} positions; every axis has at least {self.least}"
        return self.report(message, Label(self.span))


@problem_kind
class TooLong(Problem):
    """A size that an operator needs to be at most another one."""

    code: ClassVar[str] = "XG0403"
    span: Span
    smaller: str
    larger: str
    why: str

    def diagnostic(self) -> Diagnostic:
        """Say both numbers and why the one bounds the other."""
        return self.report(
            f"{self.smaller} is more than {self.larger}", Label(self.span), notes=(self.why,)
        )


@problem_kind
class NoValue(Problem):
    """A number of an operator that has no value for these sizes."""

    code: ClassVar[str] = "XG0405"
    span: Span
    number: str
    why: str

    def diagnostic(self) -> Diagnostic:
        """Say what cannot be computed."""
        return self.report(f"{self.number} has no value: {self.why}", Label(self.span))
