"""Errors in an operator that a file defines (XG0250 to XG0259, XG0266)."""

from __future__ import annotations

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, ProblemAt
from xg.passes.resolve.errors_of_names import in_a_body, in_a_chain


class Wrong(Exception):
    """Carries a problem out of the part that has it, so that the next part is still read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


class BadSignature(ProblemAt):
    """An operand or an own argument that an operator defined by an expression cannot have."""

    code = "XG0250"
    title = "{message}"
    message: str
    help: tuple[str, ...] = ()


class UnknownPart(ProblemAt):
    """A name that is neither operand nor own argument nor part."""

    code = "XG0251"
    operator: str
    known: tuple[str, ...]
    below: bool
    axes: tuple[str, ...] = ()

    def diagnostic(self) -> Diagnostic:
        """List what the body may mention."""
        name = self.span.text
        sizes = f", and the sizes of its axes: {', '.join(self.axes)}" if self.axes else ""
        help = (f"it can use {', '.join(self.known)}{sizes}",) if self.known else ()
        if help and name[:1].isupper():  # as sizes are called
            own = f"op {self.operator}(…; {name})"
            help = (*help, f"a number that each use sets goes after a semicolon: {own}")
        plain = name.rpartition(".")[2]
        if plain != name and plain in ("inf", "pi", "e"):
            help = (f"write it without a module: {plain}",)
        if name == "e":
            help = ("for a power of e, write exp(x)",)
        if name == "inf":
            help = ("inf only works in `select`: select(i >= j, x, -inf)",)
        if name in ("pi", "π"):
            help = ("write the number, 3.141592653589793",)
        if self.below:
            help = (f"{name} is defined below: `where` is read from top to bottom",)
        return self.report(
            f"{self.operator} has no operand or part {name}", Label(self.span), help=help
        )


class UnknownFunction(ProblemAt):
    """A call of something that bodies do not know."""

    code = "XG0252"
    title = "the body of an op has no function {span.text}"
    known: tuple[str, ...]
    product: str = ""  # of an operand and its parentheses

    def helps(self) -> tuple[str, ...]:
        """How it is written here, or all that there are."""
        if self.product:
            return (f"a product is written with `*`: `{self.product}`",)
        formula = in_a_body(self.span.text)
        meant = (f"write it out: {formula}",) if formula else in_a_chain(self.span.text)
        return (*meant, f"there are {', '.join(self.known)}")


class FunctionAndOp(ProblemAt):
    """A call of a function of expressions, where an op has the same name."""

    code = "XG0265"
    title = "{span.text} is a function here, not the op {span.text}"
    fix = "give the op another name"


class OpCallsItself(ProblemAt):
    """Ops whose expressions call each other in a cycle."""

    code = "XG0277"
    title = "an op calls itself: {calls}"
    fix = "write one of them out, or repeat a block with `N × Block`"
    calls: str


class LongFormula(ProblemAt):
    """An op with too many functions when the ops that it calls are written out."""

    code = "XG0278"
    title = "{operator} expands to {count} functions; at most {maximum} are allowed"
    fix = "call the ops as nodes of a chain: `x -> A -> B`"
    operator: str
    count: int
    maximum: int


class LengthAsTranspose(ProblemAt):
    """`k^T` where T is an axis: a power by its length, which is read as a transpose."""

    code = "XG0270"
    title = "{span.text!q} is a power: T is the length of an axis here"
    base: str

    def helps(self) -> tuple[str, ...]:
        """The operand without it, and the power in another spelling."""
        return (
            f"an op finds axes by name, so nothing is transposed: write `{self.base}`",
            f"for a power by the length, write `{self.base}^(1*T)`",
        )


class WrongArguments(ProblemAt):
    """A function with other arguments than it takes."""

    code = "XG0253"
    title = "expected {form}"
    label = "here {span.text}"
    form: str
    help: tuple[str, ...] = ()


class MissingAxis(ProblemAt):
    """A reduction over an axis that the operand does not have."""

    code = "XG0254"
    title = "there is no axis {axis} to reduce: the operand has [{axes!j}]"
    fix = "name its axes in the signature: op F(x [.., D]) = …"
    axis: str
    axes: tuple[str, ...]


class NotUsed(ProblemAt):
    """An operand, own argument or part that the result does not depend on."""

    code = "XG0255"
    title = "{operator} does not use {span.text}"
    operator: str
    is_operand: bool = False

    def helps(self) -> tuple[str, ...]:
        if not self.is_operand:
            return ("use it, or leave it out",)
        return (
            "remove it; if only its axes matter, take positions along them as operands: "
            f"`op {self.operator}(i [S] in S) = …`, and `range(S) -> {self.operator}`",
        )


class SameName(ProblemAt):
    """Two operands or parts of one name."""

    code = "XG0256"
    title = "the name {span.text} is taken"


class MisplacedComparison(ProblemAt):
    """A comparison as a number, or a number as a comparison."""

    code = "XG0257"
    wanted: bool
    written: str = ""  # the call with a comparison in its place

    def diagnostic(self) -> Diagnostic:
        """Show where comparisons belong."""
        what = "a comparison is needed here" if self.wanted else "a comparison is not a number"
        condition = "x > 0" if self.wanted or len(self.span.text) > 60 else self.span.text
        help = f"select({condition}, x, 0)" if self.wanted else f"select({condition}, 1, 0) is one"
        return self.report(what, Label(self.span), help=(self.written or help,))


class WholeResult(ProblemAt):
    """A result of integers that says no range."""

    code = "XG0266"
    title = "the result has integers of unknown range"
    fix = "use float(i) for floats, or a comparison for a mask of 0 and 1"


class BadExponent(ProblemAt):
    """A power whose exponent is a tensor."""

    code = "XG0258"
    title = "an exponent must be a number"
    fix = "for x^y, write exp(y * log(x))"


class BadBase(ProblemAt):
    """A power of a number that may be 0 or less, whose exponent is a tensor."""

    code = "XG0276"
    title = "a base must be above 0 if its exponent is a tensor"
    help: str = "for alternating signs, write 1 - 2*(i - 2*floor(i/2)), where i = range[S]"


class UndefinedNumber(ProblemAt):
    """A number without a finite value, such as `1/0` or `sqrt(0 - 1)`."""

    code = "XG0259"
    title = "{span.text} is not a finite number"
