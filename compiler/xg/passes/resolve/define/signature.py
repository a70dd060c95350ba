"""Read the signature of a defined operator, and list the functions that its body may call.

Axes are local names: a use binds them to sizes, ``..`` to any number of leading ones. One order of
all axes, ``..`` first and then as they first appear, is the order of every shape in the body.

Axes match by name, so every tensor of a body has the order of the signature, with size 1 for an
axis that it lacks. Aligning trailing axes, as NumPy does, would silently confuse two axes of one
size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, Literal

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import FUNCTIONS as OF_NUMBERS
from xg.ir.dim import Dim, Scalar, as_scalar, function, number
from xg.ir.functions import FUNCTIONS as ELEMENTARY
from xg.ir.functions import STEPS, exp, log_one_plus_exp, log_sum_exp, sigmoid
from xg.ir.prim import Expr, arg_max, as_float, binary, const, cumsum, integer, reduce, unary, where
from xg.ir.tensor import Shape, TensorType
from xg.ir.use import Misuse
from xg.passes.resolve.define.errors import (
    BadBase,
    BadExponent,
    BadSignature,
    MisplacedComparison,
    MissingAxis,
    SameName,
    UnknownFunction,
    Wrong,
    WrongArguments,
)
from xg.syntax import ast

# The functions that the body of a defined operator may call.


LOGIC: Final = ("and", "or")
UNARY: Final = (*ELEMENTARY, "stop")
BINARY: Final[Mapping[str, str]] = {"max": "maximum", "min": "minimum"}
ALONG: Final = ("argmax", "cumsum")  # one axis
REDUCTIONS: Final = ("sum", "mean", "max", "min", "logsumexp", *ALONG)
COMPOSED: Final[Mapping[str, Callable[[Expr], Expr]]] = {
    "sigmoid": sigmoid,
    "softplus": log_one_plus_exp,
}
PLAIN: Final = (*UNARY, "abs", *COMPOSED, "float")  # of one argument
NAMES: Final = (
    *(*PLAIN, *BINARY, "select", "equal", *LOGIC),
    *("sum[D]", "mean[D]", "max[D]", "min[D]", "logsumexp[D]", "argmax[D]", "cumsum[D]"),
    "range[D]",
)
FUNCTIONS: Final = frozenset((*PLAIN, *BINARY, *REDUCTIONS, *LOGIC, "select", "equal", "range"))

Places = Callable[[str], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class BodyValue:
    """A value inside a body: a number, or a tensor with the names of its axes.

    `range` is that of an operand of integers; integers that are computed have none.
    """

    value: Expr | Scalar
    axes: frozenset[str] = frozenset()
    range: str | int | None = None


def apply(call: ast.Call, arguments: Sequence[BodyValue], places: Places) -> BodyValue:
    """The value of a call; raises Wrong."""
    name = call.operator.name
    if call.axes is not None:
        return _reduction(call, call.axes, arguments, places)
    match name, arguments:
        case "select", (condition, yes, no):
            return _select(call, condition, yes, no)
        case _, (x,) if name in COMPOSED:
            return BodyValue(COMPOSED[name](as_float(const(x.value))), x.axes)
        case _, (x,) if name in STEPS and isinstance(x.value, Scalar):
            return BodyValue(_step(call, x.value))
        case "float", (x,):
            return BodyValue(as_float(const(x.value)), x.axes)
        case "abs", (x,):
            return elementwise("maximum", x, replace(x, value=-x.value))
        case "equal", (x, y):
            return elementwise("eq", x, y)
        case _, (x, *others) if name in LOGIC and others:
            return _logical(call, name, arguments)
        case _, (x,) if name in UNARY:
            return _unary(name, x)
        case _, (x, *others) if name in BINARY and others:
            for other in others:
                x = elementwise(BINARY[name], x, other)
            return x
        case _:
            raise Wrong(_misfit(call, name))


def _misfit(call: ast.Call, name: str) -> WrongArguments | UnknownFunction:
    if name == "select":
        return WrongArguments(call.span, "select(condition, where it holds, elsewhere)")
    if name in PLAIN:
        return WrongArguments(call.span, f"{name}(x)")
    if name in LOGIC:
        return WrongArguments(call.span, f"{name}(a > b, c > d)")
    if name == "equal":
        return WrongArguments(call.span, "equal(x, y)")
    if name in BINARY:
        return WrongArguments(call.span, f"{name}(x, y), or {name}[D](x) over an axis")
    if name in REDUCTIONS:
        return WrongArguments(call.span, f"{name}[D](x) with the axes to reduce")
    return UnknownFunction(call.operator.span, NAMES)


def _unary(name: str, x: BodyValue) -> BodyValue:
    if isinstance(x.value, Scalar) and name == "stop":
        return x
    if isinstance(x.value, Scalar) and name in OF_NUMBERS:
        return BodyValue(function(name, x.value))
    return BodyValue(unary(name, as_float(const(x.value))), x.axes)


def _step(call: ast.Call, number: Scalar) -> Scalar:
    """A step function of a number; raises Wrong for one that depends on sizes."""
    compute = ELEMENTARY[call.operator.name].number
    if number.constant is None or compute is None:
        what = f"{call.operator.name} of an operand or a number; sizes are exact"
        raise Wrong(WrongArguments(call.span, what))
    return as_scalar(compute(number.constant))


def elementwise(prim: str, left: BodyValue, right: BodyValue) -> BodyValue:
    """A function of two: integers meet whole numbers as integers, and anything else as floats."""
    values, axes = (left.value, right.value), left.axes | right.axes
    if all(value.kind != "int" for value in values if isinstance(value, Expr)):
        return BodyValue(binary(prim, *values), axes)
    if prim != "div" and all(map(_is_integer, values)):
        operands = [value if isinstance(value, Expr) else integer(value) for value in values]
    else:
        operands = [as_float(value) if isinstance(value, Expr) else value for value in values]
    return BodyValue(binary(prim, *operands), axes)


def _is_integer(value: Expr | Scalar) -> bool:
    return value.kind == "int" if isinstance(value, Expr) else value.is_integral


def _logical(call: ast.Call, name: str, conditions: Sequence[BodyValue]) -> BodyValue:
    for condition, argument in zip(conditions, call.arguments, strict=True):
        if not isinstance(condition.value, Expr) or condition.value.kind != "bool":
            raise Wrong(MisplacedComparison(argument.value.span, wanted=True))
    first, *others = conditions
    for other in others:
        first = BodyValue(binary(name, first.value, other.value), first.axes | other.axes)
    return first


def _select(call: ast.Call, condition: BodyValue, yes: BodyValue, no: BodyValue) -> BodyValue:
    if not isinstance(condition.value, Expr) or condition.value.kind != "bool":
        raise Wrong(MisplacedComparison(call.arguments[0].value.span, wanted=True))
    axes = condition.axes | yes.axes | no.axes
    values = [part.value for part in (yes, no)]
    if {v.kind for v in values if isinstance(v, Expr)} != {"int"}:
        values = [as_float(v) if isinstance(v, Expr) else v for v in values]
    return BodyValue(where(condition.value, *values), axes)


def _reduction(
    call: ast.Call, brackets: ast.AxisMap, arguments: Sequence[BodyValue], places: Places
) -> BodyValue:
    name = call.operator.name
    if name not in REDUCTIONS or len(arguments) != 1 or brackets.target is not None:
        is_function = name in FUNCTIONS
        form = f"{name}[D](x)" if name in REDUCTIONS else f"{name} without brackets"
        span = call.operator.span
        raise Wrong(
            WrongArguments(call.span, form) if is_function else UnknownFunction(span, NAMES)
        )
    (x,) = arguments
    axes = [_axis(item, x) for item in brackets.source]
    reduced = tuple(place for axis in axes for place in places(axis))
    tensor = as_float(const(x.value))
    if name in ALONG and len(reduced) != 1:
        raise Wrong(WrongArguments(call.span, f"{name}[D](x) along one axis"))
    kept = x.axes - set(axes)
    match name:
        case "min":
            return BodyValue(-reduce("max", -tensor, reduced), kept)
        case "logsumexp":
            return BodyValue(log_sum_exp(tensor, reduced), kept)
        case "argmax":
            return BodyValue(arg_max(tensor, *reduced), kept)
        case "cumsum":
            return BodyValue(cumsum(tensor, *reduced), x.axes)
        case _:
            return BodyValue(reduce(name, tensor, reduced), kept)


def _axis(item: ast.AxisItem, x: BodyValue) -> str:
    name = item.name.name if isinstance(item, ast.Axis) and item.size is None else item.span.text
    if name not in x.axes:
        raise Wrong(MissingAxis(item.span, name, tuple(sorted(x.axes))))
    return name


def power(base: BodyValue, exponent: BodyValue, written: ast.Power) -> BodyValue:
    """``base ^ exponent``; one must be a number, for all sizes above 0 if the other is a tensor."""
    if isinstance(exponent.value, Expr):
        if isinstance(base.value, Expr):
            raise Wrong(BadExponent(written.exponent.span))
        known = base.value.constant
        if known is None and not base.value.is_positive:
            means = f"exp(log({written.base.span.text}) * ({written.exponent.span.text}))"
            raise Wrong(BadBase(written.base.span, f"if this is above 0, write {means}"))
        if known is not None and known <= 0:
            raise Wrong(BadBase(written.base.span))
        factor = function("log", base.value)
        return BodyValue(exp(as_float(exponent.value) * factor), exponent.axes)
    value = as_float(base.value) if isinstance(base.value, Expr) else base.value
    return BodyValue(value**exponent.value, base.axes)


REST: Final = ".."
PAIR: Final = 2
Lengths = Mapping[str, Shape]  # the sizes of an axis: one, of `..` any number


@dataclass(frozen=True, slots=True)
class Slot:
    """An operand with the names of its axes; without a shape it is ``[..]``.

    Integers are below a size: `range` is its name, or the number that it has to be. One in a list
    has its shape from the next one, `op f(x, b [D])`.
    """

    name: str
    axes: tuple[str, ...]
    range: str | int | None = None
    is_listed: bool = False

    @property
    def kind(self) -> Literal["float", "int"]:
        """Whether the operand holds numbers or integers."""
        return "float" if self.range is None else "int"

    def __str__(self) -> str:
        return f"{self.name} [{', '.join(self.axes)}]"


@dataclass(frozen=True, slots=True)
class DefinedSignature:
    """All operands (data, then own tensors), names of own numbers, and every axis in its order.

    Each axis that is `made` has its length from an own argument of its name. `result` is the order
    of the axes of the result, where the file declares it.
    """

    operator: str
    data: tuple[Slot, ...]
    tensors: tuple[Slot, ...]
    numbers: tuple[str, ...]
    made: tuple[str, ...] = ()
    result: tuple[str, ...] | None = None

    def order(self, axes: Collection[str]) -> tuple[str, ...]:
        """The axes of a result in their order."""
        return self.result or tuple(axis for axis in self.axes if axis in axes)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The operands in the order of a use."""
        return (*self.data, *self.tensors)

    @property
    def axes(self) -> tuple[str, ...]:
        """Every axis once."""
        names = dict.fromkeys(axis for slot in self.slots for axis in slot.axes)
        return (*sorted(names, key=lambda axis: axis != REST), *self.made)

    def check_ranges(self, types: Sequence[TensorType]) -> None:
        """Raise Misuse for integers of another range than the signature says."""
        ranges: dict[str, Dim] = {}
        for place, (slot, type_) in enumerate(zip(self.slots, types, strict=True)):
            below = type_.range
            if slot.range is None or below is None:
                continue  # the kinds of operands are checked before
            expected = number(slot.range) if isinstance(slot.range, int) else below
            if isinstance(slot.range, str):
                expected = ranges.setdefault(slot.range, below)
            if below != expected:
                raise Misuse(
                    f"{self.operator} takes integers in {expected} as {slot.name}",
                    {place: f"these are in {below}"},
                )

    def bind(self, shapes: Sequence[Shape], spell: Callable[[Shape], str]) -> Lengths:
        """The sizes of the axes for operands of these shapes; else Misuse."""
        try:
            return self._bound(shapes, spell)
        except Misuse as misuse:
            if len(self.data) == PAIR and self._fits_reverse_order(shapes, spell):
                order = " and ".join(slot.name for slot in self.data)
                help = (f"swap the operands: they are {order}",)
                raise Misuse(misuse.message, misuse.notes, help) from None
            raise

    def _fits_reverse_order(self, shapes: Sequence[Shape], spell: Callable[[Shape], str]) -> bool:
        try:
            self._bound((*shapes[:PAIR][::-1], *shapes[PAIR:]), spell)
        except Misuse:
            return False
        return len({slot.kind for slot in self.data}) == 1

    def _bound(self, shapes: Sequence[Shape], spell: Callable[[Shape], str]) -> Lengths:
        lengths: dict[str, Shape] = {}
        for place, (slot, shape) in enumerate(zip(self.slots, shapes, strict=True)):
            for axis, length in self._match_axes(slot, shape, place, spell):
                earlier = lengths.setdefault(axis, length)
                if earlier != length:
                    both = f"{spell(earlier)} and {spell(length)}"
                    raise Misuse(
                        f"{axis} of {self.operator} would be {both}",
                        {place: f"{slot} is {spell(shape)}"},
                        self._rest_help(slot, earlier, length, spell) if axis == REST else (),
                    )
        return lengths

    def _rest_help(
        self, slot: Slot, earlier: Shape, length: Shape, spell: Callable[[Shape], str]
    ) -> tuple[str, ...]:
        """How operands say that they have other axes; `slot` is the later of two that differ."""
        named = ", ".join(axis for axis in slot.axes if axis != REST)
        first = next(each for each in self.slots if REST in each.axes)
        has, lacks = (first, slot) if len(length) < len(earlier) else (slot, first)
        few, many = sorted((earlier, length), key=len)
        if few == many[: len(few)] and (few or not named):
            behind = [*spell(many[len(few) :])[1:-1].split(", "), *has.axes[1:]]
            own = f"`{has.name} [.., {', '.join(behind)}]` and `{lacks}`"
            own = own if few else f"`{has.name} [..]` and `{lacks.name} []`"
            return (f"`..` is the same axes in every operand: name those of {has.name}, {own}",)
        if few and Counter(earlier) == Counter(length):
            orders = f"{first.name} is {spell(earlier)} and {slot.name} {spell(length)}"
            return (f"`..` has one order in every operand, but {orders}: reorder one, with T",)
        meant = f"`{slot.name} [{named or 'D'}]`"
        if first.is_listed and first.axes == slot.axes and not length:
            meant = f"`{first.name} [{', '.join(first.axes)}], {slot.name} [{named or 'D'}]`"
        return (
            f"`..` is the same axes in every operand: leave it out where there are none, {meant}",
        )

    def _match_axes(
        self, slot: Slot, shape: Shape, place: int, spell: Callable[[Shape], str]
    ) -> Iterator[tuple[str, Shape]]:
        named = [axis for axis in slot.axes if axis != REST]
        rest = len(shape) - len(named)
        if rest < 0 or (rest > 0 and REST not in slot.axes):
            help: tuple[str, ...] = ()
            if slot.is_listed and rest > 0:
                own = f"{slot.name} [{', '.join((REST, *named))}]"
                help = (f"a name without a shape takes the next one's: write `{own}`",)
            raise Misuse(f"{self.operator} takes {slot}", {place: f"this is {spell(shape)}"}, help)
        if REST in slot.axes:
            yield REST, shape[:rest]
        yield from ((axis, (dim,)) for axis, dim in zip(named, shape[rest:], strict=True))


def read(definition: ast.OpDef) -> DefinedSignature:
    """The signature of a definition; raises Wrong."""
    _refuse_same_names(definition)
    _refuse_listed_numbers(definition)
    signature = DefinedSignature(
        operator=definition.name.name,
        data=tuple(_data(port) for port in definition.data),
        tensors=tuple(_tensor(own, own.shape) for own in definition.own if own.shape),
        numbers=tuple(_number(own) for own in definition.own if not own.shape),
        made=_made_axes(definition),
        result=_axes(definition.result) if definition.result else None,
    )
    _refuse_names_of_axes(definition, signature)
    return signature


def _made_axes(definition: ast.OpDef) -> tuple[str, ...]:
    """The own numbers along which the expression counts positions: `range[D]` makes an axis."""
    counted = {
        item.name.name
        for tree in (definition.body, *definition.bindings)
        for part in ast.walk(tree)
        if isinstance(part, ast.Call) and part.operator.name == "range" and part.axes
        for item in part.axes.source
        if isinstance(item, ast.Axis)
    }
    numbers = (own for own in definition.own if not own.shape and not own.words)
    made = tuple(own for own in numbers if own.name.name in counted)
    for own in made:
        if own.default is not None:
            what = f"{own.name.span.text} is the length of an axis, which each use gives"
            raise Wrong(BadSignature(own.span, what, ("leave its default out",)))
    return tuple(own.name.name for own in made)


def _refuse_names_of_axes(definition: ast.OpDef, signature: DefinedSignature) -> None:
    """Refuse `op F(x [.., D]; D = 3) = x * D`, where D is a length as well."""
    for part in (*definition.data, *definition.own, *definition.bindings):
        if part.name.name in signature.axes and part.name.name not in signature.made:
            name, operator = part.name.span.text, signature.operator
            what = f"{name} is an axis of {operator}, and in an expression its length"
            help = (f"give {'the part' if isinstance(part, ast.Binding) else 'this'} another name",)
            raise Wrong(BadSignature(part.name.span, what, help))


def _refuse_listed_numbers(definition: ast.OpDef) -> None:
    """Refuse `op F(x, t [])`, which reads as if x had any axes."""
    for part in (*definition.data, *definition.own):
        if part.shape is not None and not part.shape.dims and _is_listed(part):
            name, other = part.name.span.text, part.shape.span
            what = f"{name} has no shape of its own, and would be one number as the next one is"
            axes = f"`{name} [..]`" if part in definition.data else f"`{name} [D]`"
            help = (f"write its shape: {axes}, or `{name} {other.text}` for one number",)
            raise Wrong(BadSignature(part.name.span, what, help))


def _is_listed(part: ast.Port | ast.Own) -> bool:
    """Whether a name has its shape from the next one, as `x` in `op f(x, b [D])`."""
    return part.shape is not None and part.shape.span.end > part.span.end


def _refuse_same_names(definition: ast.OpDef) -> None:
    seen: set[str] = set()
    for part in (*definition.data, *definition.own, *definition.bindings):
        if part.name.name in seen:
            raise Wrong(SameName(part.name.span))
        seen.add(part.name.name)


def _data(port: ast.Port) -> Slot:
    axes = _axes(port.shape) if port.shape else (REST,)
    listed = _is_listed(port)
    match port.range:
        case None:
            return Slot(port.name.name, axes, is_listed=listed)
        case ast.Path(segments=(name,)):
            return Slot(port.name.name, axes, name.name, listed)
        case ast.Number(value=value) if float(value).is_integer() and value > 0:
            return Slot(port.name.name, axes, int(value), listed)
        case below:
            what = "the range of an operand is a name, or a number: m [S] in 2"
            raise Wrong(BadSignature(below.span, what))


def _tensor(own: ast.Own, shape: ast.Shape) -> Slot:
    if own.default is not None:
        what = "a tensor argument has no default: the block that uses the op declares it"
        raise Wrong(BadSignature(own.span, what))
    return Slot(own.name.name, _axes(shape))


def _number(own: ast.Own) -> str:
    if own.words:
        what = (
            "an expression has no options: define one op for each word, and choose with an option"
        )
        raise Wrong(BadSignature(own.span, what))
    return own.name.name


def _axes(shape: ast.Shape) -> tuple[str, ...]:
    axes = tuple(_axis_names(shape))
    if len(set(axes)) < len(axes):
        what = "an operand has two axes of the same name"
        apart = ", ".join(_apart(axes))
        name = next(axis for axis in axes if axes.count(axis) > 1)
        meant = f"places are range[{name}] along the first, and range[{name}_2] along the second"
        counts = f"range[{name}]" in shape.span.source.line_text(shape.span.line)
        help = (f"each axis needs its own name, even if their lengths are equal: write [{apart}]",)
        help += (meant,) if counts else ()
        raise Wrong(BadSignature(shape.span, what, help))
    return axes


def _apart(axes: Sequence[str]) -> Iterator[str]:
    """Each axis that is there a second time under a name of its own: [S, S] as [S, S_2]."""
    taken = set(axes)
    for place, axis in enumerate(axes):
        count = axes[:place].count(axis) + 1
        while count > 1 and f"{axis}_{count}" in taken:
            count += 1
        name = f"{axis}_{count}" if count > 1 else axis
        taken.add(name)
        yield name


def _axis_names(shape: ast.Shape) -> Iterator[str]:
    for place, dim in enumerate(shape.dims):
        match dim:
            case ast.Rest() if place == 0:
                yield REST
            case ast.Rest():
                raise Wrong(BadSignature(dim.span, "`..` goes before the other axes"))
            case ast.Path(segments=(segment,)):
                yield segment.name
            case _:
                what = f"the axes of an op need names, and {dim.span.text} is not one"
                help = f"a name is an axis of any length: write a letter for {dim.span.text}"
                if isinstance(dim, ast.Number) and dim.value == 1:
                    help = (
                        "leave it out: what has an axis less is repeated along it, and before "
                        "the op `-> R : [B]` takes an axis of 1 away"
                    )
                raise Wrong(BadSignature(dim.span, what, (help,)))
