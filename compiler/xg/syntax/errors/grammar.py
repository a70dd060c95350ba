"""Mistakes of the grammar: what does not fit where it stands."""

from __future__ import annotations

from xg.diagnostics.diagnostic import (
    QUOTED_CHARACTERS,
    Diagnostic,
    Label,
    Problem,
    problem_kind,
    quoted,
)
from xg.diagnostics.source import Span


@problem_kind
class Unexpected(Problem):
    """Something else was to come here."""

    code = "XG0110"
    span: Span
    expected: str
    found: str

    def diagnostic(self) -> Diagnostic:
        """Say what was expected and what was found."""
        return self.report(f"expected {self.expected}, found {self.found}", Label(self.span))


@problem_kind
class UnclosedBracket(Problem):
    """A bracket still open where its statement ends."""

    code = "XG0111"
    opening: Span
    end: Span
    closing: str

    def diagnostic(self) -> Diagnostic:
        """Point at the bracket and at the place where it is missed."""
        return self.report(
            f"this `{self.opening.text}` is not closed",
            Label(self.opening),
            Label(self.end, f"a `{self.closing}` is missing before this", primary=False),
        )


@problem_kind
class WrongBracket(Problem):
    """A bracket closed by one of another kind."""

    code = "XG0112"
    closing: Span
    opening: Span
    right: str

    def diagnostic(self) -> Diagnostic:
        """Point at both."""
        return self.report(
            f"expected `{self.right}`, found {quoted(self.closing.text)}",
            Label(self.closing),
            Label(self.opening, "to close this one", primary=False),
        )


@problem_kind
class StrayBracket(Problem):
    """A closing bracket that closes nothing."""

    code = "XG0113"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Point at it."""
        return self.report(f"this {quoted(self.span.text)} closes nothing", Label(self.span))


@problem_kind
class UnclosedBlock(Problem):
    """A brace still open where the file ends or the next declaration begins."""

    code = "XG0114"
    opening: Span
    end: Span

    def diagnostic(self) -> Diagnostic:
        """Point at the brace and at the place where the other is missed."""
        return self.report(
            "this `{` is not closed",
            Label(self.opening),
            Label(self.end, "a `}` is missing before this", primary=False),
        )


@problem_kind
class MissingComma(Problem):
    """Things of a list with only a space between them, as einops writes axes."""

    code = "XG0115"
    previous: Span
    next: Span
    list: Span

    def diagnostic(self) -> Diagnostic:
        """Show the list with its commas."""
        import re  # only this error pays for it

        before, after = quoted(self.previous.text), quoted(self.next.text)
        place = Span(self.next.source, self.previous.start, self.next.end)
        mended = re.sub(r"(?<=[\w.)\]])\s+(?=[\w(\[])", ", ", self.list.text)
        help = (f"write `{mended}`",) if len(mended) <= 2 * QUOTED_CHARACTERS else ()
        return self.report(
            f"a comma is missing between {before} and {after}", Label(place), help=help
        )


@problem_kind
class MissingTimes(Problem):
    """A number written directly before what it multiplies."""

    code = "XG0116"
    number: Span
    factor: Span

    def diagnostic(self) -> Diagnostic:
        """Show the product."""
        return self.report(
            "a product is written with `*`",
            Label(Span(self.number.source, self.number.start, self.factor.end)),
            help=(f"write {quoted(f'{self.number.text}*{self.factor.text}')}",),
        )


@problem_kind
class ReservedName(Problem):
    """A word of the language in the place of a name."""

    code = "XG0117"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Name the word."""
        word = self.span.text
        return self.report(
            f"`{word}` is a word of the language and cannot be a name",
            Label(self.span),
            help=(f"`{word}_1` or `{word.capitalize()}` could be one",),
        )


@problem_kind
class DefaultAmongData(Problem):
    """A value given to an operand that arrives by an arrow."""

    code = "XG0118"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say where it belongs."""
        return self.report(
            "data arrives by arrows and has no default",
            Label(self.span),
            help=("what a node is made of stands right of a semicolon: `(X [B, S, D]; p = 0.1)`",),
        )


@problem_kind
class AssignedChain(Problem):
    """A chain written as an assignment."""

    code = "XG0119"
    span: Span
    meant: str

    def diagnostic(self) -> Diagnostic:
        """Say where the name goes."""
        return self.report(
            "a chain has its name at its end",
            Label(self.span),
            help=(f"write {quoted(self.meant)}",),
        )


@problem_kind
class ColonForBrace(Problem):
    """A block opened by a colon, as in Python."""

    code = "XG0120"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what opens a block."""
        return self.report(
            "braces hold the lines of a block",
            Label(self.span),
            help=("write `{` here and `}` behind the last line",),
        )


@problem_kind
class ColonBeforeShape(Problem):
    """A colon between a declared name and its shape."""

    code = "XG0121"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say that it is left out."""
        help = ("leave it out: a colon only names the edge that leaves a node",)
        return self.report(
            "a name and its shape have no colon between", Label(self.span), help=help
        )


@problem_kind
class StackedPower(Problem):
    """`a^b^c`: readers disagree which power is taken first."""

    code = "XG0122"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a bracket."""
        help = ("write `a^(b^c)` or `(a^b)^c`",)
        return self.report("a power of a power needs parentheses", Label(self.span), help=help)


@problem_kind
class StackedSign(Problem):
    """`--a`."""

    code = "XG0123"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a bracket."""
        return self.report("a second sign needs parentheses: `-(-a)`", Label(self.span))


@problem_kind
class ArrowAsComparison(Problem):
    """`x <= 0` or `x <-1` in an expression."""

    code = "XG0124"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say how to compare."""
        return self.report(
            f"{quoted(self.span.text)} is an arrow",
            Label(self.span),
            help=("turn the comparison round: `b > a`, `b >= a`",),
        )


@problem_kind
class Semicolon(Problem):
    """A semicolon at the end of a statement."""

    code = "XG0125"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say that it is left out."""
        help = ("leave it out; two statements stand in two lines",)
        return self.report("a line is a statement", Label(self.span), help=help)


@problem_kind
class StatementOutside(Problem):
    """A line of a block, an example or a plan outside of one."""

    code = "XG0126"
    span: Span
    owner: str

    def diagnostic(self) -> Diagnostic:
        """Say where it belongs."""
        return self.report(f"this line belongs inside {self.owner}", Label(self.span))


@problem_kind
class UnquotedFile(Problem):
    """A file's path without quotes."""

    code = "XG0127"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for the quotes."""
        help = ('write `from "layers.xg"`; a bare name is a file of the shipped library',)
        return self.report("the path of a file stands in quotes", Label(self.span), help=help)
