"""Mistakes that the grammar cannot see: what is read and then refused."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind, quoted
from xg.diagnostics.source import Span


@problem_kind
class NamelessResult(Problem):
    """A chain whose last edge has no name: nothing could use it."""

    code = "XG0130"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a label."""
        help = ("end the chain with `: NAME [shape]`",)
        return self.report("the result of this chain has no name", Label(self.span), help=help)


@problem_kind
class NamesInTheMiddle(Problem):
    """A label with several names where the chain goes on."""

    code = "XG0131"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say how to go on from several values."""
        return self.report(
            "several names end a chain",
            Label(self.span, "which of them would go on?"),
            help=("begin the next chain with the ones that it takes: `A, B -> …`",),
        )


@problem_kind
class MissingShape(Problem):
    """A declared name without a shape, and none behind it to take."""

    code = "XG0132"
    span: Span
    what: str

    def diagnostic(self) -> Diagnostic:
        """Ask for the shape."""
        name = self.span.text
        return self.report(
            f"{self.what} {quoted(name)} has no shape",
            Label(self.span),
            help=("write its axes, as in `X [B, S, D]`, or `[]` for a scalar",),
        )


@problem_kind
class WildcardOutsidePlan(Problem):
    """`_` where nothing stands to be matched."""

    code = "XG0133"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say where it is allowed."""
        return self.report("`_` stands for a dim only in the shapes of a plan", Label(self.span))


@problem_kind
class ArgumentOrder(Problem):
    """An argument in order behind one by name."""

    code = "XG0134"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say which come first."""
        message = "arguments in order stand before arguments by name"
        return self.report(message, Label(self.span))


@problem_kind
class WrongEdition(Problem):
    """An edition of the language that this compiler does not know, or stated twice or too late."""

    code = "XG0135"
    span: Span
    reason: str

    def diagnostic(self) -> Diagnostic:
        """Give the reason."""
        return self.report(self.reason, Label(self.span), help=("begin the file with `edition 1`",))


@problem_kind
class NumberedAxis(Problem):
    """A number other than 1 in the place of an axis."""

    code = "XG0136"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a name."""
        size = self.span.text
        message = f"an axis of size {quoted(size)} needs a name: only 1 may stand alone"
        return self.report(message, Label(self.span), help=(f"write {quoted(f'n={size}')}",))


@problem_kind
class InfiniteNumber(Problem):
    """A number beyond the largest float."""

    code = "XG0137"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at it."""
        return self.report("this number is too large for a float", Label(self.span))


@problem_kind
class FractionInPath(Problem):
    """A number with a point or an exponent as a part of a path."""

    code = "XG0138"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what a path is made of."""
        message = "a path goes through names and whole numbers"
        return self.report(message, Label(self.span), help=("as in `layers.3.attn.W_Q`",))
