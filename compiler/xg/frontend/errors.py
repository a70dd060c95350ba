"""Errors of project files (XG06xx) and of examples (XG07xx), and warnings about a whole file."""

from __future__ import annotations

from typing import Final, Literal

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, Problem, ProblemAt, Span
from xg.diagnostics.terminal import SLIP, similar
from xg.passes.resolve.errors_of_names import nearest
from xg.syntax.format import left_out


class Unused(ProblemAt):
    """A name that nothing uses: a warning."""

    code = "XG0225"
    title = "nothing uses the {kind} {name}"
    severity = "warning"
    kind: str
    name: str
    help: str
    whole: Span | None = None  # what to leave out

    def fixes(self) -> tuple[Fix, ...]:
        if self.whole is None:
            return ()
        if self.kind == "edge":
            return (Fix(f"leave {self.name} out", ((self.whole, ""),)),)
        return left_out(self.whole, self.name)


class UntriedChoices(ProblemAt):
    """More combinations of options than xg checks, so it checks each word once: a warning."""

    code = "XG0226"
    title = (
        "the options of {block} have {count} combinations: xg checked every word, not every "
        "combination"
    )
    severity = "warning"
    fix = "check one with --set {option}=…, or use fewer options in a block"
    block: str
    count: str
    option: str


class LossOperand(ProblemAt):
    """A loss that gets probabilities but takes logits, or the reverse: a warning."""

    code = "XG0227"
    severity = "warning"
    loss: str
    made_by: str
    takes: str  # probabilities, logits (of yes or no) or classes

    def fixes(self) -> tuple[Fix, ...]:
        name, start = self.loss, self.span.start
        rest = self.span.text.removeprefix(name).lstrip()
        if self.takes != "probabilities" or rest == self.span.text or rest.startswith("("):
            return ()
        own = Span(self.span.source, start, start + len(name))
        return (Fix.replace(own, f"{name}(form=logits)"),)

    def diagnostic(self) -> Diagnostic:
        """Say what the loss takes and what it gets, and both ways to bring them together."""
        if self.takes == "probabilities":
            title = (
                f"{self.loss} takes probabilities, but {self.made_by} gives numbers outside 0 … 1"
            )
            advice = f"write -> sigmoid -> {self.loss}, or {self.loss}(form=logits) alone"
        else:
            own = "softmax" if self.takes == "classes" else "sigmoid"
            title = f"{self.loss} takes logits, but {self.made_by} gives probabilities"
            advice = f"remove {self.made_by} before {self.loss}, which applies a {own} itself"
        return self.report(title, Label(self.span), help=(advice,))


class ExchangedNames(ProblemAt):
    """Results or parameters of a node with swapped names: a warning."""

    code = "XG0271"
    title = "{node} {gives} {names} in this order, but the names here are in another"
    severity = "warning"
    node: str
    gives: str
    names: str
    meant: str

    def helps(self) -> tuple[str, ...]:
        """Their order, and how to say that the other one is meant."""
        return (f"write {self.meant}", "if you mean this order, give them other names")


class ReorderedAxes(ProblemAt):
    """An axis that is merged from two and split into them in the other order: a warning."""

    code = "XG0272"
    title = "R keeps the order of elements: {last} after {merged} is not {first} with axes moved"
    severity = "warning"
    first: str
    merged: str
    last: str

    def helps(self) -> tuple[str, ...]:
        """One step that moves the axes, and how this is said to be meant."""
        return (
            f"to move the axes of {self.first}, write `-> T : NAME {self.last}`",
            "if you mean this order, name the axes in a map: R[b, (d, s) -> b, d, s]",
        )


class ExchangedAxes(ProblemAt):
    """An operand whose axes have the names of the port's axes in another order: a warning."""

    code = "XG0228"
    title = "{taker} takes {port} {axes}, but gets {found}: axes are matched by position"
    severity = "warning"
    label = "{apart}"
    taker: str
    port: str
    axes: str
    found: str
    apart: str  # each axis that means another one
    whole: bool  # whether the operand has all axes of the port, and no other
    over: str = ""  # the axis that a loop was likely meant to go over

    def helps(self) -> tuple[str, ...]:
        """The order that was likely meant, and how to say that this one is."""
        order = f"-> T : {self.axes}" if self.whole else "T and the shape on its label"
        likely = f"to reorder the axes, put {order} before it"
        if self.over:
            likely = f"`{self.taker} over {self.over}` gives each round {self.axes}"
        return (
            likely,
            f"if you mean this order, give the axes of {self.taker} other names",
        )


# Errors in the files of a program (XG06xx).


A_TEXT: Final = "this is source text, not a path"


class Unreadable(Problem):
    """A file that the user names and that cannot be read."""

    code = "XG0601"
    title = "cannot read {name}: {reason}"
    name: str
    reason: str
    beside: tuple[str, ...] = ()  # the programs in its folder, if it is missing
    library: tuple[str, ...] = ()  # the names of shipped diagrams, if it is missing

    def helps(self) -> tuple[str, ...]:
        if self.reason == A_TEXT:
            return ("to compile a text, call xg.compile(source=…)",)
        folder, slash, file = self.name.rpartition("/")
        stem = file.removesuffix(".xg")
        if stem not in self.library and (other := similar(stem, self.beside, SLIP)):
            return (f"did you mean {folder}{slash}{other}.xg?",)
        same_start = [name for name in self.library if name[:1] == stem[:1].lower()]
        if other := similar(stem, same_start, SLIP):  # the first letter is seldom the slip
            return (f"did you mean the shipped diagram {other}? open it by its name: {other}",)
        return ()


class UseUnreadable(ProblemAt):
    """A file in quotes that is missing, is not an ordinary file, or may not be read."""

    code = "XG0602"
    title = "cannot read {span.text}"
    label = "{reason}"
    fix = "paths are relative to the file that contains them"
    reason: str


class UseOutside(ProblemAt):
    """A file in quotes that is outside the project."""

    code = "XG0603"
    title = "{span.text} is outside the project"
    notes = "a project is the folder with .git or pyproject.toml, or else the file's folder"
    fix = "use relative paths inside the project, or the shipped library by bare name"


class UseCycle(ProblemAt):
    """Files that import each other in a cycle."""

    code = "XG0604"
    ring: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"files use each other in a cycle: {' → '.join(self.ring)}",
            Label(self.span, "this closes the cycle"),
            help=("move what both need to a third file",),
        )


class NotInLibrary(ProblemAt):
    """A bare name that is no file of the shipped library."""

    code = "XG0605"
    title = "the library has no {name}.xg"
    fix = (
        'put the name of your own file in quotes: "{name}.xg"',
        "the library has {known!j}",
    )
    name: str
    known: tuple[str, ...]


# Errors in the examples of a document (XG07xx).


class NoSuchBlock(ProblemAt):
    """An example of a block that the file neither has nor takes from another."""

    code = "XG0701"
    title = "no block of this file is called {name}"
    name: str
    known: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        return nearest(self.name, self.known) or (f'import it: use {self.name} from "FILE.xg"',)


class NotTaken(ProblemAt):
    """A `given` for a name that is no input or parameter of the block."""

    code = "XG0702"
    title = "{name} is not an input or parameter of {block}"
    name: str
    block: str
    known: tuple[str, ...]
    made: bool

    def helps(self) -> tuple[str, ...]:
        help = nearest(self.name, self.known) or (f"it takes {', '.join(self.known)}",)
        if self.made:
            help = (f"{self.block} computes {self.name}: check it with `expect`",)
        return help


class NoSuchEdge(ProblemAt):
    """An expected value for a name that no edge of the block has."""

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
    """An expected value for an input or a parameter, which nothing computes."""

    code = "XG0704"
    title = "{name} is given, not computed"
    fix = "expect an edge that the block computes, or the gradient d{name}"
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
    title = "these rows do not have the same shape"
    label = "expected {wanted}, found {found}"
    wanted: str
    found: str


class WrongShape(ProblemAt):
    """An array with another shape than its tensor."""

    code = "XG0708"
    title = "{name} is {type}{sizes}"
    label = "this is {numbers}"
    also = (("because", "inferred here"),)
    name: str
    type: str
    wanted: tuple[int, ...] | None
    found: tuple[int, ...]
    because: Span | None
    zero: bool = False  # a bare 0, claimed of a whole gradient

    def helps(self) -> tuple[str, ...]:
        zeros = f"write out its zeros, or put `expect {self.name} = 0` in the block"
        return (f"{zeros}: xg proves it for all numbers",) if self.zero else ()

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
    """An expected number without a last digit, so that its precision is unknown."""

    code = "XG0711"
    title = "{span.text} does not show how exact it is"
    fix = "write its digits, or a tolerance after it: ± 1e-6"


class BadTolerance(ProblemAt):
    """A tolerance that is not one number above 0."""

    code = "XG0712"
    title = "a tolerance must be one number above 0"


class NoLoss(ProblemAt):
    """A gradient in a block that does not have exactly one loss."""

    code = "XG0713"
    title = "{name} needs a loss: {block} does not have exactly one"
    name: str
    block: str
    scalars: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        several = f"its scalars are {', '.join(self.scalars)}: call one of them loss"
        return (several if self.scalars else "give the block an output `loss []`",)


class NoGradient(ProblemAt):
    """A gradient of something that the loss does not depend on, or of integers."""

    code = "XG0714"
    title = "{name} does not exist: {loss} has no gradient with respect to {of}"
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
    fix = "expect the edge that leaves the call"
    name: str
    path: str


class UnfitArray(ProblemAt):
    """An array of a file that no example can use."""

    code = "XG0717"
    title = "{name} in {span.text} {what}"
    fix = "`given` and `expect` take finite numbers, at most {most} in an array"
    name: str
    what: str
    most: int


class NothingClaimed(ProblemAt):
    """A file of expected values that only has inputs and parameters of the block."""

    code = "XG0718"
    title = "{span.text} only has inputs and parameters of {block}"
    fix = "`expect from` checks edges (layers.0.H), outputs and gradients (dW) by name"
    block: str
