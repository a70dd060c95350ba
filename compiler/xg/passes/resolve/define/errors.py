"""Errors in an operator that a file defines (XG0250 to XG0259)."""

from __future__ import annotations

from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span


class Wrong(Exception):
    """Carries a problem out of the part that has it, so that the next part is still read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


@problem_kind
class BadSignature(Problem):
    """An operand or an own argument that an operator defined by an expression cannot have."""

    code: ClassVar[str] = "XG0250"
    span: Span
    message: str
    help: tuple[str, ...] = ()

    def diagnostic(self) -> Diagnostic:
        """Say what was found."""
        return self.report(self.message, Label(self.span), help=self.help)


@problem_kind
class UnknownPart(Problem):
    """A name that is neither operand nor own argument nor part."""

    code: ClassVar[str] = "XG0251"
    span: Span
    operator: str
    known: tuple[str, ...]
    below: bool

    def diagnostic(self) -> Diagnostic:
        """List what the body may mention."""
        name = self.span.text
        help = (f"it may mention {', '.join(self.known)}",) if self.known else ()
        if self.below:
            help = (f"{name} stands below: `where` is read from top to bottom",)
        return self.report(
            f"{self.operator} has no operand or part {name}", Label(self.span), help=help
        )


@problem_kind
class UnknownFunction(Problem):
    """A call of something that bodies do not know."""

    code: ClassVar[str] = "XG0252"
    span: Span
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        """List the functions."""
        return self.report(
            f"the body of an op has no function {self.span.text}",
            Label(self.span),
            help=(f"there are {', '.join(self.known)}",),
        )


@problem_kind
class WrongArguments(Problem):
    """A function with other arguments than it takes."""

    code: ClassVar[str] = "XG0253"
    span: Span
    form: str

    def diagnostic(self) -> Diagnostic:
        """Show the function's form."""
        return self.report(f"expected {self.form}", Label(self.span, f"here {self.span.text}"))


@problem_kind
class MissingAxis(Problem):
    """A reduction over an axis that its operand has not."""

    code: ClassVar[str] = "XG0254"
    span: Span
    axis: str
    axes: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        """Say which axes there are."""
        return self.report(
            f"there is no axis {self.axis} to reduce: the operand has [{', '.join(self.axes)}]",
            Label(self.span),
            help=("name its axes in the signature: op F(x [.., D]) = …",),
        )


@problem_kind
class NotUsed(Problem):
    """An operand, own argument or part that the result does not depend on."""

    code: ClassVar[str] = "XG0255"
    span: Span
    operator: str

    def diagnostic(self) -> Diagnostic:
        """Name it."""
        return self.report(f"{self.operator} does not use {self.span.text}", Label(self.span))


@problem_kind
class SameName(Problem):
    """Two operands or parts of one name."""

    code: ClassVar[str] = "XG0256"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Name it."""
        return self.report(f"{self.span.text} is there already", Label(self.span))


@problem_kind
class MisplacedComparison(Problem):
    """A comparison as a number, or a number as a comparison."""

    code: ClassVar[str] = "XG0257"
    span: Span
    wanted: bool

    def diagnostic(self) -> Diagnostic:
        """Show where comparisons belong."""
        what = "a comparison is needed here" if self.wanted else "a comparison is no number"
        return self.report(what, Label(self.span), help=("select(x > 0, x, 0)",))


@problem_kind
class BadExponent(Problem):
    """A power whose exponent is a tensor."""

    code: ClassVar[str] = "XG0258"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Show how to write it."""
        return self.report(
            "an exponent is a number", Label(self.span), help=("exp(y * log(x)) is x^y",)
        )


@problem_kind
class BadNumber(Problem):
    """A number that is none: ``1/0``, ``sqrt(0 - 1)``."""

    code: ClassVar[str] = "XG0259"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Name it."""
        return self.report(f"{self.span.text} is not a finite number", Label(self.span))
