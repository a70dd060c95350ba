"""Errors in shapes (XG03xx)."""

from __future__ import annotations

import re

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, Problem, ProblemAt, Span
from xg.diagnostics.lazy_dataclass import replace
from xg.syntax.spelling import greek_name

_AROUND = re.compile(r"(?:the second operand fits transposed: <=|\S<-(?=BC))(T|BC)\([^)]+\)")


class Mistyped(Exception):
    """Carries a problem out of the node that has it, so that the next one is still checked."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


class OperatorMisuse(ProblemAt):
    """Operands that an operator cannot take."""

    code = "XG0301"
    message: str
    remark: str
    places: tuple[tuple[Span, str], ...]
    help: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        others = (Label(span, text, primary=False) for span, text in self.places)
        shown = self.report(self.message, Label(self.span, self.remark), *others, help=self.help)
        return replace(shown, fixes=self.fixes())

    def fixes(self) -> tuple[Fix, ...]:
        """The operand in the operator that the help puts around it, if it has only a name."""
        around = next((found[1] for each in self.help if (found := _AROUND.match(each))), None)
        operand = re.fullmatch(r"[^<]+<[-=]\s*([\w.]+)", self.span.text)
        if around is None or operand is None:
            return ()
        start = self.span.start + operand.start(1)
        place = Span(self.span.source, start, start + len(operand[1]))
        return (Fix.replace(place, f"{around}({operand[1]})"),)


class LabelMismatch(ProblemAt):
    """A label whose shape differs from the shape of its edge."""

    code = "XG0302"
    title = "the label says {written}, but the edge has {found}"
    label = "expected {written}, found {found}"
    written: str
    found: str
    advice: str
    is_turned: bool = False  # whether it is the name of another result

    @property
    def _of_the_next(self) -> bool:
        """Return whether a name in a list has no shape of its own and takes the next one's."""
        behind = self.span.source.text[self.span.end :]
        return self.span.text.isidentifier() and bool(re.match(r"\s*,[^\n]*\[", behind))

    def helps(self) -> tuple[str, ...]:
        if self.is_turned:
            return (self.advice,)
        if self._of_the_next:
            written = f"write {self.span.text} {self.found}"
            return (f"a name without a shape takes the next one's shape and range: {written}",)
        if " in " in self.written and " in " not in self.found:
            made = "integers come from inputs, range and topk, masks from comparisons in an op"
            return (f"the edge has floats: {made}", *self._of_one_integer())
        return (self.advice or "a label names a shape, and cannot change it",)

    def _of_one_integer(self) -> tuple[str, ...]:
        """Suggest how to repeat one integer everywhere, if the line says `fill[B](0)`."""
        line = self.span.source.line_text(self.span.line)
        made = re.search(r"\bfill(\[[^\]]*\])\((\w+)\)\s*:", line)
        if made is None:
            return ()
        below = self.written.rpartition(" in ")[2]
        return (
            f"one integer everywhere: `range({below}) -> pick[{below}]({made[2]}) -> BC{made[1]}`",
        )

    def fixes(self) -> tuple[Fix, ...]:
        """The shape that the edge has, in place of the one that is written."""
        if self.is_turned:
            return ()
        if self._of_the_next:
            return (Fix.replace(self.span, f"{self.span.text} {self.found}"),)
        start = self.span.text.rfind("[")
        if start < 0 or not self.span.text.endswith("]") or not self.found.endswith("]"):
            return ()
        shape = Span(self.span.source, self.span.start + start, self.span.end)
        return (Fix.replace(shape, self.found),)


class ExchangedResults(ProblemAt):
    """Labels that name the results of an operator in the wrong order."""

    code = "XG0326"
    title = "{node} gives {found} in this order, but the labels have another"
    fix = "{order}: write `: {names}`"
    node: str
    found: str
    names: str
    order: str


class PortMismatch(ProblemAt):
    """An operand that does not fit the port of a block."""

    code = "XG0303"
    title = "{block} expects {port} {wanted}, but gets {found}"
    label = "here {found}"
    also = (("declared", "declared {wanted}"),)
    block: str
    port: str
    wanted: str
    found: str
    declared: Span
    help: str


class SizeClash(ProblemAt):
    """One symbol of a called block that would be two sizes."""

    code = "XG0304"
    block: str
    symbol: str
    first: str
    second: str
    ports: tuple[Span, Span]

    def diagnostic(self) -> Diagnostic:
        first, second = self.ports
        places = {first: f"here {self.symbol} is {self.first}"}
        told = f"here {self.symbol} is {self.second}"
        places[second] = f"{places[first]} and {self.second}" if first == second else told
        return self.report(
            f"{self.symbol} of {self.block} would be {self.first} and {self.second} at once",
            Label(self.span),
            *(Label(span, text, primary=False) for span, text in places.items()),
            help=(f"give the axes different symbols if they may differ in {self.block}",),
        )


class RepeatChanges(ProblemAt):
    """A repeated block whose output cannot be its next input."""

    code = "XG0305"
    title = "{block} cannot be repeated: it turns {before} into {after}"
    label = "{before} goes in, {after} comes out"
    also = (("port", "each repetition takes the previous result"),)
    fix = "the first operand must keep its shape; the others stay the same"
    block: str
    before: str
    after: str
    port: Span


class SharedShape(ProblemAt):
    """Calls that share a parameter, which would have two shapes."""

    code = "XG0307"
    title = "{param} would be {shape} here, but it is {wanted} in the first call"
    label = "needs {shape}"
    also = (("first", "needs {wanted}"),)
    fix = "calls can share parameters only if these get the same sizes"
    param: str
    shape: str
    wanted: str
    first: Span


class OpenSize(ProblemAt):
    """A size of a called block that its operands, the call and the file leave open."""

    code = "XG0308"
    call: str
    symbol: str
    block: str
    value: str

    def diagnostic(self) -> Diagnostic:
        name, once = self.symbol, f"once for all: dim {self.symbol} = 8"
        help = (f"set it in the call, {self.call}({name}={self.value}), or {once}",)
        if self.block != self.call:
            help = (f"set it in {self.call}, {self.block}({name}=…), or {once}",)
        return self.report(
            f"this call does not determine {name} of {self.block}",
            Label(self.span, f"no operand has an axis {name}"),
            help=help,
        )

    def fixes(self) -> tuple[Fix, ...]:
        """The size as an argument of the call, where it is this call that leaves it open."""
        name = re.match(r"\w+", self.span.text)
        if self.block != self.call or name is None or self.span.text != name[0]:
            return ()
        place = Span(self.span.source, self.span.end, self.span.end)
        given = f"({greek_name(self.symbol)}={self.value})"
        return (Fix(f"set it in the call: {self.call}{given}", ((place, given),)),)


class OpenTwice(ProblemAt):
    """A size that a call leaves to the program, while the caller's own has the same name."""

    code = "XG0309"
    call: str
    symbol: str
    block: str
    caller: str
    program: str

    def diagnostic(self) -> Diagnostic:
        name, call, block = self.symbol, self.call, self.block
        help = f"set it where {call} calls {block}: {block}({name}=…)"
        if block == call:
            help = f"to use the {name} of {self.caller}, write {call}({name}={name})"
        left = f"{name} of {block} is left open"
        return self.report(
            f"{left}: it is the program's, {self.program}, not the {name} of {self.caller}",
            Label(self.span),
            help=(help,),
        )


class WrongKind(ProblemAt):
    """Integers where floats are needed, or the other way round."""

    code = "XG0306"
    title = "{node} needs {wanted} for {operand}, but gets {found}"
    node: str
    operand: str
    wanted: str
    found: str
    how: str
    index: str  # the declaration that makes it integers
    shipped: bool = True
    listed: bool = False  # whether it may have its shape from the next operand
    instead: str = ""  # what was likely meant

    def helps(self) -> tuple[str, ...]:
        if self.instead:
            return (self.instead,)
        if self.wanted != "integers":
            return ("to make floats of integers, define `op floats(i [..] in N) = float(i)`",)
        order = (f"`xg ops {self.node}` shows the order of operands",) if self.shipped else ()
        if self.listed:
            alone = (
                f"a name without a shape takes the next one's shape and range: {self.operand} [..]"
            )
            return (f"{self.how}: {self.index}", alone)
        return (f"{self.how}: {self.index}", *order)


class LoopAxis(ProblemAt):
    """A call over an axis that its operands do not have, or have twice."""

    code = "XG0314"
    title = "{block} cannot loop over {axis}: {shape} {has}"
    also = (("operand", "this is {shape}"),)
    block: str
    axis: str
    shape: str
    operand: Span
    count: int
    ports: str
    formula: str = ""  # the size of the axis that may be meant
    round: str = ""  # the shape that a round would be given, where the axis is there
    taken: str = ""  # the port with another number of axes

    def helps(self) -> tuple[str, ...]:
        """Give the size a name that is a formula of the axis, or say what a round takes."""
        if self.round:
            port = self.taken.partition(" [")[0]
            return (f"to give each round all of it, declare `{port} {self.round}` in {self.block}",)
        if self.formula:
            name = f"{self.axis}_1"
            return (f"its size is a formula: name it, `dim {name} = {self.formula}`, over {name}",)
        apart = "an operand with one more axis is split along it"
        return (f"a round takes {self.ports}: {apart}",)

    @property
    def has(self) -> str:
        """How often the operand has the axis, or what it would leave."""
        if self.round:
            return f"would leave {self.round} for a round, which takes {self.taken}"
        return f"has {self.axis} {self.count} times" if self.count else f"has no axis {self.axis}"


class StateMismatch(ProblemAt):
    """A first or next state whose type differs from the type of the state."""

    code = "XG0315"
    title = "the state {name} is {expected}, but {becomes} {found}"
    also = (("edge", "this is {found}"),)
    name: str
    expected: str
    becomes: str
    found: str
    edge: Span
    advice: str = ""

    def helps(self) -> tuple[str, ...]:
        return ("a state has one shape in every round", *((self.advice,) if self.advice else ()))
