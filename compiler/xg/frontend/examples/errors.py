"""What can be wrong with the examples of a document (XG07xx)."""

from __future__ import annotations

from typing import ClassVar, Literal

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span
from xg.passes.resolve.errors import nearest


@problem_kind
class NoSuchBlock(Problem):
    """An example of a block that the file neither has nor takes from another."""

    code: ClassVar[str] = "XG0701"
    span: Span
    name: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        """Say which blocks there are."""
        help = nearest(self.name, self.known) or (f'take it: use {self.name} from "FILE.xg"',)
        message = f"no block of this file is called {self.name}"
        return self.report(message, Label(self.span), help=help)


@problem_kind
class NotTaken(Problem):
    """A `given` of something that the block takes from nobody."""

    code: ClassVar[str] = "XG0702"
    span: Span
    name: str
    block: str
    known: tuple[str, ...]
    made: bool

    def diagnostic(self) -> Diagnostic:
        """Say what is given to the block."""
        help = nearest(self.name, self.known) or (f"it takes {', '.join(self.known)}",)
        if self.made:
            help = (f"{self.block} makes {self.name} itself: `expect` claims what it is",)
        return self.report(
            f"{self.name} is no input and no parameter of {self.block}", Label(self.span), help=help
        )


@problem_kind
class NoSuchEdge(Problem):
    """A claim about something that no edge of the block is called."""

    code: ClassVar[str] = "XG0703"
    span: Span
    name: str
    block: str
    known: tuple[str, ...]
    what: Literal["edges", "calls"] = "edges"

    def diagnostic(self) -> Diagnostic:
        """Say which edges there are, or which calls."""
        edges = (
            f"its {self.what} are {', '.join(self.known)}"
            if self.known
            else f"it has no {self.what}"
        )
        return self.report(
            f"no edge of {self.block} is called {self.name}",
            Label(self.span),
            help=nearest(self.name, self.known) or (edges,),
        )


@problem_kind
class ClaimOfGiven(Problem):
    """A claim about an input or a parameter, which nothing computes."""

    code: ClassVar[str] = "XG0704"
    span: Span
    name: str

    def diagnostic(self) -> Diagnostic:
        """Say what can be claimed."""
        return self.report(
            f"{self.name} is given, not computed",
            Label(self.span),
            help=(f"claim an edge that the block makes, or the gradient d{self.name}",),
        )


@problem_kind
class GivenTwice(Problem):
    """Two values for one name."""

    code: ClassVar[str] = "XG0705"
    span: Span
    name: str
    first: Span

    def diagnostic(self) -> Diagnostic:
        """Show both places."""
        return self.report(
            f"{self.name} is given twice",
            Label(self.span, "again here"),
            Label(self.first, "first here", primary=False),
        )


@problem_kind
class NotGiven(Problem):
    """An input, or a parameter that starts at random, without a value."""

    code: ClassVar[str] = "XG0706"
    span: Span
    name: str
    type: str

    def diagnostic(self) -> Diagnostic:
        """Say how it is given."""
        return self.report(
            f"this example gives no {self.name} {self.type}",
            Label(self.span),
            help=(f"add `given {self.name} = …`",),
        )


@problem_kind
class Ragged(Problem):
    """Rows that are not alike, or numbers beside rows."""

    code: ClassVar[str] = "XG0707"
    span: Span
    wanted: str
    found: str

    def diagnostic(self) -> Diagnostic:
        """Name both."""
        return self.report(
            "these rows are not alike",
            Label(self.span, f"{self.found}, where {self.wanted} is expected"),
        )


@problem_kind
class WrongShape(Problem):
    """An array that does not have the shape of what it is printed for."""

    code: ClassVar[str] = "XG0708"
    span: Span
    name: str
    type: str
    wanted: tuple[int, ...] | None
    found: tuple[int, ...]
    because: Span | None

    def diagnostic(self) -> Diagnostic:
        """Say both shapes, and which array settled the sizes."""
        sizes = f", which is {list(self.wanted)} here" if self.wanted else ""
        why = (Label(self.because, "read off here", primary=False),) if self.because else ()
        return self.report(
            f"{self.name} is {self.type}{sizes}",
            Label(self.span, f"this is {list(self.found)}"),
            *why,
        )


@problem_kind
class NotANumber(Problem):
    """Something that is no finite number."""

    code: ClassVar[str] = "XG0709"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what is one."""
        return self.report(
            f"{self.span.text} is not a number",
            Label(self.span),
            help=("a document holds numbers, or formulas of numbers such as 1/sqrt(3)",),
        )


@problem_kind
class NotAnIndex(Problem):
    """A number that is none of the integers which an input takes."""

    code: ClassVar[str] = "XG0710"
    span: Span
    name: str
    below: int

    def diagnostic(self) -> Diagnostic:
        """Say which integers those are."""
        return self.report(
            f"{self.name} takes integers from 0 to {self.below - 1}", Label(self.span)
        )


@problem_kind
class NoLastDigit(Problem):
    """A claim that does not say how exact it is."""

    code: ClassVar[str] = "XG0711"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for a tolerance."""
        return self.report(
            f"{self.span.text} has no last digit that says how exact it is",
            Label(self.span),
            help=("write its digits, or a tolerance behind the claim: ± 1e-6",),
        )


@problem_kind
class BadTolerance(Problem):
    """A tolerance that is not one number above 0."""

    code: ClassVar[str] = "XG0712"
    span: Span

    def diagnostic(self) -> Diagnostic:
        """Say what it should be."""
        return self.report("a tolerance is one number above 0", Label(self.span))


@problem_kind
class NoLoss(Problem):
    """A gradient of a block that does not say which number it is the gradient of."""

    code: ClassVar[str] = "XG0713"
    span: Span
    name: str
    block: str
    scalars: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        """Say which numbers the block gives."""
        several = f"it gives the numbers {', '.join(self.scalars)}: call one of them loss"
        return self.report(
            f"{self.name} is the gradient of nothing: {self.block} has no one loss",
            Label(self.span),
            help=(several if self.scalars else "give the block an output `loss []`",),
        )


@problem_kind
class NoGradient(Problem):
    """A gradient of something that the loss does not depend on, or of integers."""

    code: ClassVar[str] = "XG0714"
    span: Span
    name: str
    of: str
    loss: str

    def diagnostic(self) -> Diagnostic:
        """Say why there is none."""
        return self.report(
            f"{self.name} does not exist: {self.loss} has no gradient towards {self.of}",
            Label(self.span),
        )


@problem_kind
class TwoMeanings(Problem):
    """A name that is an edge, and the gradient of another one."""

    code: ClassVar[str] = "XG0715"
    span: Span
    name: str
    edge: Span

    def diagnostic(self) -> Diagnostic:
        """Ask for another name of the edge."""
        return self.report(
            f"{self.name} is an edge, and the gradient of {self.name[1:]}",
            Label(self.span),
            Label(self.edge, "the edge", primary=False),
            help=("call the edge otherwise",),
        )


@problem_kind
class RunsAgain(Problem):
    """An edge of a call that is made several times under one name."""

    code: ClassVar[str] = "XG0716"
    span: Span
    name: str
    path: str

    def diagnostic(self) -> Diagnostic:
        """Say what would tell them apart."""
        return self.report(
            f"{self.path} is called more than once: {self.name} has several values",
            Label(self.span),
            help=("claim the edge that leaves the call",),
        )
