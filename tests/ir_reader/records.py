"""The printed IR as a tree: its lines as data, names not looked up and sizes not expanded yet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TypeAlias

from lark import Token

from ir_reader.errors import Meaningless
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import FUNCTIONS, ONE, Dim, DimError, Scalar, number, symbol
from xg.ir.placement import AxisState, PlacementRequest
from xg.ir.tensor import Sizes
from xg.passes.ir_text import SIZE

# Sizes and numbers of the printed IR: one notation, read as a `Dim` or as a `Scalar`.
#
# An expression is kept in postfix order, so that nothing recurses however deep it is nested.


@dataclass(frozen=True, slots=True)
class SizeName:
    """The name of a size."""

    name: str


@dataclass(frozen=True, slots=True)
class Applied:
    """An operation on the items before it: one of ``+ - * / ^``, ``neg``, or a function."""

    operation: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A size inside a number: ``size(B*S)``."""

    expression: Expression


Item = int | float | SizeName | Applied | Whole
Expression = tuple[Item, ...]


def as_dim(expression: Expression, sizes: Sizes | None = None) -> Dim:
    """The size that an expression is; with `sizes` free of defined symbols."""
    stack: list[Dim] = []
    for item in expression:
        match item:
            case int():
                stack.append(number(item))
            case SizeName():
                stack.append(symbol(item.name))
            case Applied():
                right = stack.pop()
                left = stack.pop() if item.operation in "+-*/^" else ONE
                stack.append(_combine_dims(left, item.operation, right))
            case _:
                raise Meaningless("a size is made of whole numbers and names")
    (dim,) = stack
    return dim if sizes is None else sizes.expand(dim)


def _combine_dims(left: Dim, operation: str, right: Dim) -> Dim:
    try:
        match operation:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case "neg":
                return right * -1
            case "^" if right.constant is not None:
                return left**right.constant
            case other:
                raise Meaningless(f"a size cannot be made with {other}")
    except DimError as error:
        raise Meaningless(str(error)) from None


def as_number(expression: Expression) -> int | Scalar:
    """The number that an attribute is: a whole number alone is an int, all else a `Scalar`."""
    match expression:
        case (int() as value,):
            return value
        case (int() as value, Applied(operation="neg")):
            return -value
        case _:
            return as_scalar(expression)


@cache
def as_scalar(expression: Expression) -> Scalar:
    """The real number that an expression is, its operations and sizes as they are written.

    One text is one object: a backend asks whether a body has the very number of an attribute.
    """
    stack: list[Scalar] = []
    for item in expression:
        match item:
            case int() | float():
                stack.append(Scalar("number", (), float(item)))
            case SizeName():
                stack.append(Scalar("size", (), symbol(item.name)))
            case Whole():
                stack.append(Scalar("size", (), as_dim(item.expression)))
            case Applied(operation="neg"):
                stack.append(_negative(stack.pop()))
            case Applied() if item.operation in FUNCTIONS:
                stack.append(Scalar(item.operation, (stack.pop(),)))
            case Applied() if item.operation in "+-*/^":
                right, left = stack.pop(), stack.pop()
                stack.append(Scalar(item.operation, (left, right)))
            case Applied():
                functions = ", ".join((*FUNCTIONS, SIZE))
                raise Meaningless(f"expected {functions}, not {item.operation}")
    (scalar,) = stack
    return scalar


def _negative(scalar: Scalar) -> Scalar:
    if not isinstance(scalar.value, float) or scalar.op != "number":
        raise Meaningless("expected a number after -")
    return Scalar("number", (), -scalar.value)


Names = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class TypeText:
    """``[B, S] in V``."""

    shape: tuple[Expression, ...]
    range: Expression | None = None


@dataclass(frozen=True, slots=True)
class ValueText:
    """A value where it comes into being, with what is known of it."""

    name: Token
    role: str | None = None
    type: TypeText | None = None
    shown: tuple[Expression, ...] | None = None
    placement: Mapping[str, AxisState] | None = None
    placement_requests: Mapping[str, PlacementRequest] | None = None
    of: Token | None = None
    frozen: Token | None = None


@dataclass(frozen=True, slots=True)
class NumberAttr:
    """An attribute that is a number: a whole one is an int."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class SizeAttr:
    """An attribute that is a size: ``|S|``."""

    expression: Expression


@dataclass(frozen=True, slots=True)
class ShapeText:
    """An attribute that is a shape: ``[B, S]``."""

    shape: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """An attribute that is a word, true, false, none or a state of a placement."""

    value: str | bool | AxisState | None


@dataclass(frozen=True, slots=True)
class Several:
    """An attribute that is a tuple."""

    items: tuple[Attribute, ...]


Attribute: TypeAlias = NumberAttr | SizeAttr | ShapeText | Constant | Several
Attributes = Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class ApplyText:
    """``LN(X, gamma, beta) {eps=1e-05}``, and what follows on the line."""

    glyph: Token
    inputs: Names
    attrs: Attributes
    place: str | None
    origin: Token | None
    chosen: Names | None


@dataclass(frozen=True, slots=True)
class LoopText:
    """``over S reversed [-2, none] -> [-2, none] states 1``."""

    length: Expression
    reverse: bool
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    states: int


@dataclass(frozen=True, slots=True)
class CallText:
    """``call Layer × N_L as layers (X)``."""

    verb: Token
    callee: str
    count: Expression | None
    first: int
    path: str
    loop: LoopText | None
    carried: tuple[tuple[int, int], ...]
    inputs: Names
    sizes: Mapping[str, Expression]
    origin: Token | None


@dataclass(frozen=True, slots=True)
class PrimitiveText:
    """A line of an operator's body."""

    value: ValueText
    prim: Token
    args: Names
    attrs: Attributes


@dataclass(frozen=True, slots=True)
class Definition:
    """The lines below a step whose operator is not of the language."""

    name: str
    family: str
    flags: frozenset[str]
    data: Names
    own: Names
    outputs: Names
    lines: tuple[PrimitiveText, ...]
    results: Names
    caches: Names


@dataclass(frozen=True, slots=True)
class StepText:
    """A step, with the definition of its operator and the steps that it replaces."""

    outputs: tuple[ValueText, ...]
    use: ApplyText | CallText
    definition: Definition | None = None
    parts: tuple[StepText, ...] = ()
    again: bool = False

    @property
    def first(self) -> Token:
        """The first token of it that is a name."""
        if self.outputs:
            return self.outputs[0].name
        return self.use.glyph if isinstance(self.use, ApplyText) else self.use.verb


@dataclass(frozen=True, slots=True)
class SizesText:
    """The symbols of a graph: definitions and numbers."""

    definitions: Mapping[str, Expression]
    defaults: Mapping[str, int]
    mesh: tuple[str, ...]
    local: frozenset[str]


@dataclass(frozen=True, slots=True)
class UniformText:
    """``uniform(-1, 1)``."""

    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True)
class ParamText:
    """A parameter and what it starts as."""

    value: ValueText
    start: str | Expression | UniformText


@dataclass(frozen=True, slots=True)
class ForeignText:
    """A parameter of a call that the block reads itself."""

    value: ValueText


@dataclass(frozen=True, slots=True)
class CarryText:
    """``carry h = h next y start 0``."""

    name: str
    past: Token
    next: Token
    start: Expression


@dataclass(frozen=True, slots=True)
class StateText:
    """``state K = K_past [B, S, D] next K_now``."""

    name: str
    past: ValueText
    next: Token


@dataclass(frozen=True, slots=True)
class NamesText:
    """A line of names: ``saved``, ``return`` or ``reusable``."""

    kind: str
    names: Names


@dataclass(frozen=True, slots=True)
class PairsText:
    """A line of pairs of names: ``d``, ``totals`` or ``alias``."""

    kind: str
    pairs: tuple[tuple[Token, Token], ...]


@dataclass(frozen=True, slots=True)
class RowsText:
    """Values of a round of a backward pass, and the axes along which a loop stacks them."""

    axes: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class LayoutText:
    """The mesh axes that cut a value, as the file writes it."""

    value: Token
    cuts: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class MemoryText:
    """Whether values are computed again or kept, by name."""

    said: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WordText:
    """A line of one text: ``block`` or ``title``."""

    kind: str
    text: str


LineText: TypeAlias = (
    StepText
    | SizesText
    | ParamText
    | ForeignText
    | StateText
    | CarryText
    | NamesText
    | PairsText
    | LayoutText
    | RowsText
    | MemoryText
    | WordText
)


@dataclass(frozen=True, slots=True)
class GraphText:
    """A graph or a backward graph."""

    kind: Token
    key: Token
    inputs: tuple[ValueText, ...]
    results: tuple[tuple[str, TypeText], ...]
    lines: tuple[LineText, ...]


@dataclass(frozen=True, slots=True)
class CutText:
    """``[_|N_D, D_ff|N_T, ..]``: whole sizes, each with the mesh axes that cut it."""

    parts: tuple[tuple[Expression | None, tuple[str, ...]], ...]
    open: bool


@dataclass(frozen=True, slots=True)
class EntryText:
    """A line of a plan."""

    block: Token
    path: str
    rest: CutText | None
    use: CutText | None
    over: frozenset[str]
    plan: str
    memory: str | None


@dataclass(frozen=True, slots=True)
class ScheduleText:
    """The order of stages that a plan names; no `parts` where it leaves them open."""

    block: Token
    name: str
    parts: int
    turns: int


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan."""

    name: str
    title: str
    mesh: Mapping[str, int | None]
    lines: tuple[EntryText | ScheduleText, ...]


@dataclass(frozen=True, slots=True)
class CountsText:
    """``numbers`` of sizes, or the ``mesh``."""

    kind: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CommunicatorsText:
    """The communicators of ranks, in order."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DefineText:
    """An operator as its file defines it."""

    text: str
    line: int | None


@dataclass(frozen=True, slots=True)
class ProgramText:
    """A whole text."""

    entry: str
    graphs: tuple[GraphText, ...] = ()
    sizes: SizesText | None = None
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    lengths: Mapping[str, int] = field(default_factory=dict[str, int])
    communicators: tuple[str, ...] = ()
    plan: PlanText | None = None
    definitions: tuple[DefineText, ...] = ()


def attribute(text: Attribute, sizes: Sizes) -> object:
    """The attribute that a text spells; raises Meaningless."""
    match text:
        case NumberAttr():
            return as_number(text.expression)
        case SizeAttr():
            return as_dim(text.expression, sizes)
        case ShapeText():
            return tuple(as_dim(dim, sizes) for dim in text.shape)
        case Constant():
            return text.value
        case Several():  # as deep as the operator's author nested it
            return tuple(attribute(item, sizes) for item in text.items)
