"""Errors in the examples of a document (XG07xx)."""

from __future__ import annotations

from typing import Literal

from xg.diagnostics.diagnostic import ProblemAt
from xg.diagnostics.source import Span
from xg.passes.resolve.errors_of_names import nearest


class NoSuchBlock(ProblemAt):
    """An example of a block that the file neither has nor takes from another."""

    code = "XG0701"
    title = "no block of this file is called {name}"
    name: str
    known: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        return nearest(self.name, self.known) or (f'take it: use {self.name} from "FILE.xg"',)


class NotTaken(ProblemAt):
    """A `given` for a name that is no input or parameter of the block."""

    code = "XG0702"
    title = "{name} is no input and no parameter of {block}"
    name: str
    block: str
    known: tuple[str, ...]
    made: bool

    def helps(self) -> tuple[str, ...]:
        help = nearest(self.name, self.known) or (f"it takes {', '.join(self.known)}",)
        if self.made:
            help = (f"{self.block} makes {self.name} itself: `expect` claims what it is",)
        return help


class NoSuchEdge(ProblemAt):
    """A claim about something that no edge of the block is called."""

    code = "XG0703"
    title = "no edge of {block} is called {name}"
    name: str
    block: str
    known: tuple[str, ...]
    what: Literal["edges", "calls"] = "edges"

    def helps(self) -> tuple[str, ...]:
        edges = (
            f"its {self.what} are {', '.join(self.known)}"
            if self.known
            else f"it has no {self.what}"
        )
        return nearest(self.name, self.known) or (edges,)


class ClaimOfGiven(ProblemAt):
    """A claim about an input or a parameter, which nothing computes."""

    code = "XG0704"
    title = "{name} is given, not computed"
    fix = "claim an edge that the block makes, or the gradient d{name}"
    name: str


class GivenTwice(ProblemAt):
    """Two values for one name."""

    code = "XG0705"
    title = "{name} is given twice"
    label = "again here"
    also = (("first", "first here"),)
    name: str
    first: Span


class NotGiven(ProblemAt):
    """An input, or a parameter that starts at random, without a value."""

    code = "XG0706"
    title = "this example gives no {name} {type}"
    fix = "add `given {name} = …`"
    name: str
    type: str


class Ragged(ProblemAt):
    """Rows of different lengths, or numbers next to rows."""

    code = "XG0707"
    title = "these rows are not alike"
    label = "{found}, where {wanted} is expected"
    wanted: str
    found: str


class WrongShape(ProblemAt):
    """An array with another shape than its tensor."""

    code = "XG0708"
    title = "{name} is {type}{sizes}"
    label = "this is {numbers}"
    also = (("because", "read off here"),)
    name: str
    type: str
    wanted: tuple[int, ...] | None
    found: tuple[int, ...]
    because: Span | None
    zero: bool = False  # a bare 0, claimed of a whole gradient

    def helps(self) -> tuple[str, ...]:
        zeros = f"print its zeros, or write `expect {self.name} = 0` in the block: it is proven"
        return (f"{zeros} to be zero for all numbers",) if self.zero else ()

    @property
    def sizes(self) -> str:
        return f", which is {list(self.wanted)} here" if self.wanted else ""

    @property
    def numbers(self) -> list[int]:
        return list(self.found)


class NotANumber(ProblemAt):
    """An entry that is not a finite number."""

    code = "XG0709"
    title = "{span.text} is not a number"
    fix = "a document holds numbers, or formulas of numbers such as 1/sqrt(3)"


class NotAnIndex(ProblemAt):
    """A number outside the integers that an input takes."""

    code = "XG0710"
    title = "{name} takes integers from 0 to {last}"
    name: str
    last: int


class NoLastDigit(ProblemAt):
    """A claimed number without a last digit, so that its precision is unknown."""

    code = "XG0711"
    title = "{span.text} has no last digit that says how exact it is"
    fix = "write its digits, or a tolerance behind the claim: ± 1e-6"


class BadTolerance(ProblemAt):
    """A tolerance that is not one number above 0."""

    code = "XG0712"
    title = "a tolerance is one number above 0"


class NoLoss(ProblemAt):
    """A gradient in a block that does not have exactly one loss."""

    code = "XG0713"
    title = "{name} is the gradient of nothing: {block} has no one loss"
    name: str
    block: str
    scalars: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        several = f"it gives the numbers {', '.join(self.scalars)}: call one of them loss"
        return (several if self.scalars else "give the block an output `loss []`",)


class NoGradient(ProblemAt):
    """A gradient of something that the loss does not depend on, or of integers."""

    code = "XG0714"
    title = "{name} does not exist: {loss} has no gradient towards {of}"
    name: str
    of: str
    loss: str


class TwoMeanings(ProblemAt):
    """A name that is both an edge and the gradient of another edge."""

    code = "XG0715"
    title = "{name} is an edge, and the gradient of {of}"
    also = (("edge", "the edge"),)
    fix = "give the edge another name"
    name: str
    of: str
    edge: Span


class RunsAgain(ProblemAt):
    """An edge of a call that runs several times under one name."""

    code = "XG0716"
    title = "{path} is called more than once: {name} has several values"
    fix = "claim the edge that leaves the call"
    name: str
    path: str
