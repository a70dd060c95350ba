"""Errors in names and places, before any shape is known (XG02xx)."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, Problem, ProblemAt, Span
from xg.diagnostics.terminal import SLIP, similar, there_are
from xg.passes.resolve.errors_of_names import (
    FUNCTIONS_ELSEWHERE,
    UnknownName,
    filled,
    in_place,
    meant,
    nearest,
    spelling_fixes,
)
from xg.syntax.format import left_out
from xg.syntax.spelling import ascii_name, greek_name

NEAR = 200  # characters before a name that are looked at
NEAR_BELOW = 10_000  # characters behind a name that are looked at


class Refused(Exception):
    """Carries a problem out of the statement that has it, so that the next one is still read."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems)
        self.problems = problems


def _below(span: Span) -> str:
    """Return the text between a span and the end of its block, up to `NEAR_BELOW` characters."""
    return span.source.text[span.end :].partition("\n}")[0][:NEAR_BELOW]


class UnknownValue(ProblemAt):
    """A value that no line above computes."""

    code = "XG0201"
    title = "no value is called {name}"
    label = "not defined above"
    name: str
    known: tuple[str, ...]
    other: Literal["operator", "dim", "number", "nothing"] = "nothing"  # that is called so
    input: str = ""  # as an input it would be written so
    declaration: str = ""  # the line that declares it as a parameter
    is_own: bool = False  # a parameter in the parentheses of its operator, and no edge

    def helps(self) -> tuple[str, ...]:
        if made := filled(self.span):
            return (f"a source has its axes in brackets: `{made}`",)
        if self.other == "operator":
            return (f"{self.name} is an operator: write it after an arrow, -> {self.name}",)
        if self.other == "dim":
            return (f"{self.name} is a dim: use it in shapes, not as a value",)
        if self.other == "number":
            own = f"`op f(x; {self.name}) = x + {self.name}` and `-> f({self.name})`"
            return (f"{self.name} is a number, which operators take in parentheses: {own}",)
        if self._is_made_below:
            return (f"{self.name} is defined further down: move this line below it",)
        if self.name.endswith(".T"):
            return (f"to transpose a matrix, write T({self.name[:-2]})",)
        close = similar(self.name, self.known)
        if "." in self.name or (close and close.lower() == self.name.lower()):
            return nearest(self.name, self.known)
        slip = f"did you mean {close}? if not, " if close else ""
        return (f"{slip}{self._definition_hint}",)

    @property
    def _is_made_below(self) -> bool:
        """Whether a line of the same block ends in the name."""
        ends = rf":[^\n]*\b{re.escape(self.name)}\b *(\[|,|\n|$)"
        return bool(re.search(ends, _below(self.span)))

    @property
    def _definition_hint(self) -> str:
        """Say how to define the value."""
        if self.is_own:
            return f"declare it: {self.declaration}"
        edge = f"name an edge above: … : {self.name}"
        if self.declaration:
            return f"declare it, {self.declaration}, or {edge}"
        return f"{edge}, or add it to the inputs: {self.input}" if self.input else edge

    def fixes(self) -> tuple[Fix, ...]:
        return () if self.other == "operator" else spelling_fixes(self.span, self.name, self.known)


class UnknownMark(ProblemAt):
    """A highlight or a note at a place that the block does not have."""

    code = "XG0267"
    title = "nothing here that {what} is called {name}"
    label = "no such place"
    name: str
    what: str
    known: tuple[str, ...]
    help: str

    def helps(self) -> tuple[str, ...]:
        return (self.help,) if self.help else nearest(self.name, self.known)

    def fixes(self) -> tuple[Fix, ...]:
        return () if self.help else spelling_fixes(self.span, self.name, self.known)


class MarkedTwice(ProblemAt):
    """A highlight or a note that repeats an earlier one."""

    code = "XG0268"
    title = "{name} is already marked like this"
    label = "has no effect"
    name: str


class NoGradientHere(ProblemAt):
    """A gradient that a block expects to be zero, and does not have."""

    code = "XG0273"
    title = "{block} has no gradient {name}: {because}"
    name: str
    block: str
    because: str
    known: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        listed = f"it has {', '.join(self.known)}" if self.known else ""
        return nearest(self.name, self.known) or ((listed,) if listed else ())


class OtherThanZero(ProblemAt):
    """A line of a block that expects something other than a gradient of zero."""

    code = "XG0274"
    title = "in a block, `expect` only takes a gradient that is zero"
    fix = "write `expect {name} = 0`, or expect other numbers in an `example` of the block"
    name: str


class ZeroTwice(ProblemAt):
    """A gradient that a block expects to be zero twice."""

    code = "XG0275"
    title = "{name} is expected twice"
    label = "again here"
    also = (("first", "first here"),)
    name: str
    first: Span


class UnknownOperator(ProblemAt):
    """A node that is no operator, block or option."""

    code = "XG0202"
    title = "no operator, block or option is called {name}"
    name: str
    known: tuple[str, ...]
    value: bool = False
    matrix: bool = False  # a parameter of two axes
    call: bool = False

    def helps(self) -> tuple[str, ...]:
        if re.search(rf"\bas {re.escape(self.name)}\b", _below(self.span)):
            return (f"{self.name} is a call further down: move this line below it",)
        if self.call:
            return (
                f"{self.name} is a call: to call it again, write `-> {self.name}` without `as`",
            )
        behind = self.span.source.text[self.span.end :]
        close = nearest(self.name, self._near, SLIP)
        alike = any(each.lower() == self.name.lower() for each in self.known)
        help = close if alike else meant(self.name, behind) or close
        if self.value:
            product = f"`•<={self.name}` multiplies by it, " if self.matrix else ""
            uses = f"{product}`: {self.name}` names an edge, `<-{self.name}` uses it"
            help = (f"{self.name} is a value: {uses}",)
            if indexed := re.match(r"\[([^\]\n]*)\]", behind):
                table = f"rows of a table are {indexed[1]} -> Emb({self.name})"
                place = f"one position is {self.name} -> pick[S]({indexed[1]})"
                help = (f"{self.name} is a value: {table}, {place}",)
        before = self.span.source.text[max(0, self.span.start - NEAR) : self.span.start]
        if row := re.search(r"((?:\d+(?:\.\d+)?e[+-]?)?\d+(?:\.\d+)?|\w+) *[×*] *$", before):
            help = (f"the number of calls comes first: {self.name} × {row[1]}",)
            if self.value and row[1][0].isdigit():
                own = re.search(rf"(^|\n)\s{{0,80}}{re.escape(self.name)} *->[^\n:]*$", before)
                chain = f"{'' if own else f'{self.name} '}-> scale({row[1]})"
                help = (f"to multiply by a number, write `{chain}`",)
            elif self.value:
                help = (f"to multiply by {self.name}, write `-> {row[1]} -> ⊙<-{self.name}`",)
        own = f"`op {self.name}(x) = …` defines an operator, `: {self.name}` names an edge"
        return help or ((own,) if self.name.isidentifier() else ())

    def fixes(self) -> tuple[Fix, ...]:
        if self.value or self.span.text != self.name:
            return ()
        if meant(self.name):
            return in_place(self.span, self.name)
        return spelling_fixes(self.span, self.name, self._near, SLIP)

    @property
    def _near(self) -> tuple[str, ...]:
        """The known names, none for a function of other libraries, which no slip has made."""
        return () if self.name.lower() in FUNCTIONS_ELSEWHERE else self.known


class NameTwice(ProblemAt):
    """A name that is declared twice."""

    code = "XG0204"
    title = "{name} is defined twice"
    label = "again here"
    also = (("first", "first here"),)
    name: str
    first: Span

    def helps(self) -> tuple[str, ...]:
        line = self.first.source.line_text(self.first.line)
        if re.match(r"\s*state\b", line):
            name = self.name
            line = f"write `: {name}_1` and, in the next line, `next {name} = {name}_1`"
            below = self.span.source.text[self.span.end :].partition("\n}")[0]
            if not re.search(rf"\b{re.escape(name)}\b", below):
                return (line,)
            return (
                line,
                f"below it, {name} is the state before the round, and {name}_1 the new one",
            )
        again = self.span.source.line_text(self.span.line)
        if re.match(r"\s*state\b", again) and (block := re.match(r"block\s+(\w+)", line)):
            start = f"its start is set in the call: {block[1]}({self.name}=…)"
            return (f"a state is not an input: remove {self.name} from the inputs; {start}",)
        return ("a name can be defined only once: choose another",)


class NoLabel(ProblemAt):
    """A chain whose result has no name, so that nothing can use it."""

    code = "XG0205"
    title = "the result of this chain has no name"
    label = "leaves here"
    fix = "name the edge: `: NAME`"


class OutputMissing(ProblemAt):
    """An output that no chain makes; an edge of a similar name that nothing reads may be it."""

    code = "XG0206"
    title = "no chain computes the output {name}"
    label = "declared here"
    also = (("slip", "computed here, but never used"),)
    name: str
    slip: Span | None = None

    def helps(self) -> tuple[str, ...]:
        made = f"`: {self.name}`"
        return (f"did you mean {made}?" if self.slip else f"end a chain with {made}",)

    def fixes(self) -> tuple[Fix, ...]:
        return (Fix.replace(self.slip, self.name),) if self.slip else ()


class WrongOperands(ProblemAt):
    """Too many or too few operands."""

    code = "XG0207"
    title = "{node} takes {takes}, but {found} {arrive}"
    also = (("declared", "declared here"),)
    node: str
    takes: str
    found: int
    declared: Span | None = None
    help: tuple[str, ...] = ()

    @property
    def arrive(self) -> str:
        return "arrives" if self.found == 1 else "arrive"


class DoubleArrow(ProblemAt):
    """A double arrow into an operator other than •, or a • without one."""

    code = "XG0208"
    node: str

    def diagnostic(self) -> Diagnostic:
        if self.node == "•":
            return self.report(
                "• needs exactly one operand with a single arrow and one with a double arrow",
                Label(self.span),
                help=("H -> •<=W multiplies H by W",),
            )
        return self.report(
            f"the double arrow is for the second operand of •, not for {self.node}",
            Label(self.span),
            help=(f"write {self.node}<-…",),
        )


class BadArgument(ProblemAt):
    """An argument in parentheses that the node does not take."""

    code = "XG0209"
    title = "{message}"
    also = (("made", "made here"),)
    message: str
    help: tuple[str, ...] = ()
    made: Span | None = None
    meant: str | None = None  # that a slip has made the text at the span of

    def fixes(self) -> tuple[Fix, ...]:
        return (Fix.replace(self.span, self.meant),) if self.meant else ()


Wrong = Literal["axes", "map", "list", "size", "again", "twice", "same name", "counted"]


class BadBrackets(ProblemAt):
    """Brackets that the node cannot use."""

    code = "XG0223"
    node: str
    wrong: Wrong
    takes: str

    def diagnostic(self) -> Diagnostic:
        node, written = self.node, self.span.text
        example = {
            "axes": f": {node}[S]",
            "new axes": f": {node}[S]",
            "map": f": {node}[b, s, d -> b, d, s]",
        }.get(self.takes, "")
        message = {
            "axes": f"{node} takes no list of axes in brackets",
            "map": f"{node} takes no map of axes in brackets",
            "list": f"{node} takes a list of single axes, not {written}",
            "size": f"{node} finds the axis by name: the size in {written} is not used",
            "counted": f"{node} needs axis names here: {written} is a position",
            "again": f"{written} sets the size of an axis that is already left of the arrow",
            "twice": f"{self.takes} is on the right of the arrow twice",
            "same name": f"{node} has two axes called {self.takes}",
        }[self.wrong]
        shape = f"a shape goes after the name of an edge: `-> {node} : NAME {written}`"
        if self.takes == "own":
            shape = f"the op defines its own axes: for another one, write -> T -> {node}"
        help = {
            "axes": (f"it takes a map of axes{example}" if example else shape,),
            "map": (f"it takes names of axes{example}",) if example else (),
            "size": ("only a new axis takes a size",),
            "again": (self.takes or "only a new axis takes a size",),
            "twice": (f"name each axis there once, a new one with its size: {written}",),
            "same name": ("axes need different names: rename one of them",),
        }.get(self.wrong, ())
        return self.report(message, Label(self.span), help=help)


class UnusedParam(ProblemAt):
    """A parameter that no choice of options uses."""

    code = "XG0212"
    title = "no chain uses the parameter {name}"
    label = "declared here"
    name: str

    def fixes(self) -> tuple[Fix, ...]:
        return left_out(self.span, self.name)


class UnknownWord(Problem):
    """A word that an option does not have."""

    code = "XG0213"
    title = "{option} cannot be {word}"
    span: Span | None
    option: str
    word: str
    words: tuple[str, ...]

    def helps(self) -> tuple[str, ...]:
        return (f"{self.option} may be {' or '.join(self.words)}",)

    def fixes(self) -> tuple[Fix, ...]:
        span = self.span
        if span is None or ascii_name(span.text) != self.word:
            return ()
        return tuple(Fix.replace(span, greek_name(word)) for word in self.words)


class UnknownOption(UnknownName):
    """An option that does not exist, in a guard or in a setting."""

    code = "XG0214"
    title = "no option or dim{of} is called {name}"
    block: str = ""  # that is compiled, where another has one
    owner: str = ""

    @property
    def of(self) -> str:
        """Return " of BLOCK" if another block has the option, or else ""."""
        return f" of {self.block}" if self.owner else ""

    def helps(self) -> tuple[str, ...]:
        if self.owner:
            return (
                f"the block {self.owner} has {self.name}: compile it with --block {self.owner}",
            )
        return super().helps() or there_are(self.known)


class NotYet(Problem):
    """A construct that is not part of the language."""

    code = "XG0215"
    title = "{what} is not part of the language"
    span: Span | None
    what: str
    help: tuple[str, ...] = ()


class NotInFile(UnknownName):
    """A `use` of a name that the file does not declare."""

    code = "XG0216"
    title = "{origin} has no block or op {name}"
    fix = "it has {known!j}"
    origin: str


# Errors in calls of blocks, before any shape is known (XG02xx).


# The place of a call: behind an arrow, where a chain begins, or inside a node or another call.
CallPlace: TypeAlias = Literal["node", "chain", "operand"]


class UnnamedTwice(ProblemAt):
    """Two calls that have the same name: unnamed calls of one block, or both named so by `as`."""

    code = "XG0210"
    title = "two calls are named {name}"
    label = "second call"
    also = (("first", "first call"),)
    name: str
    first: Span
    is_named: bool
    stands: CallPlace = "node"

    def helps(self) -> tuple[str, ...]:
        if self.is_named:
            again = f"to share the parameters, call it again by name: {self.name}"
            return (f"give it a name of its own: as {self.name}_2", again)
        first = " ".join(self.first.text.split())
        first = first if re.fullmatch(r"\w+ over \w+( reversed)?", first) else self.name
        written = f"{' '.join(self.span.text.split())} as second_{self.name.lower()}"
        own = {
            "node": f"give each its own name: {first} as first_{self.name.lower()}",
            "chain": f"give it a name of its own: {written}",
            "operand": f"make it a chain of its own, with a name: {written} : …",
        }[self.stands]
        return (own, "to share the parameters, name the first call and call that name again")


class CallsItself(Problem):
    """A block that contains itself."""

    code = "XG0211"
    ring: tuple[tuple[str, Span], ...]  # every block on the way, with its call of the next one

    def diagnostic(self) -> Diagnostic:
        names = [name for name, _ in self.ring]
        message = f"{names[0]} calls itself"
        if len(names) > 1:
            message = f"blocks call each other in a cycle: {' → '.join([*names, names[0]])}"
        (name, first), *rest = self.ring
        others = [Label(span, f"in {name}", primary=False) for name, span in rest]
        help = ("to repeat a block, write N × Block",)
        return self.report(message, Label(first, f"in {name}"), *others, help=help)


class SeveralOutputs(ProblemAt):
    """A node with several results in the middle of a chain."""

    code = "XG0217"
    title = "{node} returns {count} values: name them where they leave"
    node: str
    count: int
    stands: CallPlace = "node"

    def helps(self) -> tuple[str, ...]:
        if self.stands == "operand":
            written = " ".join(self.span.text.split())
            return (f"make it a chain of its own, `{written} : A, B`, and use A or B here",)
        return ("end the chain with `: A, B` and continue with `A, B -> …`",)


class RowOfSeveral(ProblemAt):
    """A repeat of a block with several results; only one can go to the next round."""

    code = "XG0229"
    title = "a repeat passes on one value, but {node} returns {count}"
    node: str
    count: int

    def helps(self) -> tuple[str, ...]:
        cut = f"in {self.node}, split them and join its results with C"
        return (f"join the values before the repeat, `A, B -> C`; {cut}",)


class CalledAgain(ProblemAt):
    """A second call of the same name that differs from the first."""

    code = "XG0221"
    name: str
    what: Literal["a row", "repeated", "given arguments"]
    first: Span

    def diagnostic(self) -> Diagnostic:
        name = self.name
        message, help = {
            "a row": (
                f"{name} is a repeat: it cannot be called again",
                "put the repeat into a block, and call that block again by name",
            ),
            "repeated": (
                f"{name} is one call: it cannot be repeated",
                "each repetition has its own parameters: repeat the block itself; "
                "to share them, loop with a state: -> Cell over S",
            ),
            "given arguments": (
                f"{name} is called again: only its first call takes arguments",
                "for other arguments, call the block itself under another name with `as`",
            ),
        }[self.what]
        return self.report(
            message,
            Label(self.span, "again here"),
            Label(self.first, "first call", primary=False),
            help=(help,),
        )


class ParamOfRow(ProblemAt):
    """A parameter of a repeat, which is a different one in each round."""

    code = "XG0222"
    title = "{name} is a repeat: {span.text} differs in each repetition"
    also = (("row", "the repeat"),)
    fix = "to share a parameter, declare it in the block that contains all nodes that use it"
    name: str
    row: Span


class NoBlock(Problem):
    """A block that the file does not declare."""

    code = "XG0220"
    title = "{file} has no block {wanted}"
    file: str
    name: str | None
    known: tuple[str, ...]

    @property
    def wanted(self) -> str:
        return self.name or "of its own to compile"

    def helps(self) -> tuple[str, ...]:
        if self.name is None:
            return (
                (f"it imports {', '.join(self.known)}: choose one with --block NAME",)
                if self.known
                else ()
            )
        return nearest(self.name, self.known) or (f"it has {', '.join(self.known)}",)


# Errors in states, and in calls over an axis (XG026x).


class StateOutsideLoop(ProblemAt):
    """A block with a state that is called once."""

    code = "XG0260"
    title = "{block} has the state {state}: it can only be called over an axis"
    also = (("declared", "the state"),)
    block: str
    state: str
    declared: Span
    takes_nothing: bool

    def helps(self) -> tuple[str, ...]:
        if self.takes_nothing:
            return (f"a loop goes over an input: give {self.block} one",)
        return (f"name the axis to loop over: {self.block} over S",)


class OverOperator(ProblemAt):
    """A loop around an operator."""

    code = "XG0261"
    title = "{node} is an operator: only a block can be called over an axis"
    node: str
    axis: str
    state: str = ""  # of the block around

    def helps(self) -> tuple[str, ...]:
        if self.state:
            own = f"put the round and the state {self.state} into a block of their own"
            return (f"{own}, and call it: -> Cell over {self.axis}",)
        return ("an operator works on all positions at once: remove `over`",)


class OverRow(ProblemAt):
    """A loop around a repeat."""

    code = "XG0262"
    title = "{node} is both repeated and called over an axis"
    fix = "put the loop into its own block, and repeat that block"
    node: str


class NextOfState(ProblemAt):
    """A state that no `next` sets, or a `next` that sets none, or sets it again."""

    code = "XG0263"
    title = "{name} {wrong}"
    name: str
    wrong: str
    help: str


class StateStart(ProblemAt):
    """A state that begins as something else than a number, or as something that is no value."""

    code = "XG0264"
    title = "the state {name} cannot start as {span.text}"
    name: str
    given: str = ""  # how a call gives it, where a call does

    def helps(self) -> tuple[str, ...]:
        where = f"to start from a value, pass it in the call: ({self.name}=EDGE)"
        return (self.given or f"it may start as zeros, ones or a number; {where}",)
