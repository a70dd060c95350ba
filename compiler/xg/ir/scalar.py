"""Real numbers known before any tensor is: ``1/sqrt(D_h)``, ``0.1``, ``N_E/k``.

A `Scalar` stays symbolic in the sizes it depends on, so that a generated module computes it from
the sizes that its inputs carry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.limits import NumberParts
from xg.ir.dim import Dim
from xg.ir.dim import number as dim_number

FUNCTIONS: Final[Mapping[str, Callable[[float], float]]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
}


class ScalarError(ArithmeticError):
    """A number that there is not: a root of -1, a division by 0, more than a float holds."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number (`op` = "number"), a size ("size") or an operation on two or one of these.

    >>> from xg.ir.dim import symbol
    >>> scale = 1 / function("sqrt", size(symbol("D_h")))
    >>> str(scale), scale.evaluate({"D_h": 16})
    ('1/sqrt(D_h)', 0.25)
    """

    op: str
    args: tuple[Scalar, ...] = ()
    value: float | Dim = 0.0
    parts: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Count the operations: a number that is passed on from call to call can double in each."""
        parts = 1 + sum(arg.parts for arg in self.args)
        NumberParts.check(parts, None)
        object.__setattr__(self, "parts", parts)

    def __add__(self, other: Scalar | float) -> Scalar:
        return _combine("+", self, as_scalar(other))

    def __sub__(self, other: Scalar | float) -> Scalar:
        return _combine("-", self, as_scalar(other))

    def __mul__(self, other: Scalar | float) -> Scalar:
        return _combine("*", self, as_scalar(other))

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return _combine("/", self, as_scalar(other))

    def __rtruediv__(self, other: float) -> Scalar:
        return as_scalar(other) / self

    def __rsub__(self, other: float) -> Scalar:
        return as_scalar(other) - self

    def __pow__(self, other: Scalar | float) -> Scalar:
        return _combine("^", self, as_scalar(other))

    def __neg__(self) -> Scalar:
        return as_scalar(-1.0) * self

    @property
    def constant(self) -> float | None:
        """The number this is, or None while a size is left."""
        return self.evaluate({}) if not self.symbols() else None

    @property
    def is_integral(self) -> bool:
        """Return whether it is an integer for all sizes: sizes and integers under +, - and *."""
        if self.op == "number":
            return isinstance(self.value, float) and self.value.is_integer()
        return self.op in ("size", "+", "-", "*") and all(arg.is_integral for arg in self.args)

    @property
    def is_positive(self) -> bool:
        """Whether this is surely more than 0, whatever the sizes are."""
        if self.op == "number":
            return isinstance(self.value, float) and self.value > 0
        if self.op == "size":
            return isinstance(self.value, Dim) and not self.value.may_be_negative
        first = all(arg.is_positive for arg in self.args[:1])
        return {"exp": True, "sqrt": first, "^": first}.get(
            self.op, self.op in "+*/" and all(arg.is_positive for arg in self.args)
        )

    def as_dim(self) -> Dim:
        """The same number as a size; it has to be whole."""
        if self.op == "number":
            assert isinstance(self.value, float)
            return dim_number(int(self.value))
        if self.op == "size":
            assert isinstance(self.value, Dim)
            return self.value
        left, right = (arg.as_dim() for arg in self.args)
        return left + right if self.op == "+" else left - right if self.op == "-" else left * right

    def dims(self) -> tuple[Dim, ...]:
        """Every size this number depends on."""
        if isinstance(self.value, Dim):
            return (self.value,)
        return tuple(dim for arg in self.args for dim in arg.dims())

    def symbols(self) -> tuple[str, ...]:
        """Return the symbols of its sizes, each once, in alphabetical order."""
        return tuple(sorted({name for dim in self.dims() for name in dim.symbols()}))

    def divisors(self) -> Iterator[Dim]:
        """Every size that this number is divided by: none of them may be 0."""
        below = self.args[1:] if self.op == "/" else ()
        power = self.args[1].constant if self.op == "^" else None
        if power is not None and power < 0:
            below = self.args[:1]
        for arg in below:
            yield from arg.dims() if arg.vanishes else ()
        for arg in self.args:
            yield from arg.divisors()

    @property
    def vanishes(self) -> bool:
        """Whether this is 0 if one of its sizes is: a product or a root of sizes."""
        if self.op == "size":
            return True
        return self.op in ("*", "sqrt") and any(arg.vanishes for arg in self.args)

    def substitute(self, values: Mapping[str, Dim]) -> Scalar:
        """This number with symbols replaced, all at once."""
        if isinstance(self.value, Dim):
            return size(self.value.substitute(values))
        return Scalar(self.op, tuple(arg.substitute(values) for arg in self.args), self.value)

    def evaluate(self, sizes: Mapping[str, int]) -> float:
        """The number this is for `sizes`."""
        if self.op == "number":
            assert isinstance(self.value, float)
            return self.value
        if self.op == "size":
            assert isinstance(self.value, Dim)
            return _float(self.value, sizes)
        args = [arg.evaluate(sizes) for arg in self.args]
        return _computed(self.op, *args)

    def __str__(self) -> str:
        return self.spell(lambda dim: str(dim), lambda name, arg: f"{name}({arg})", power="^")

    def spell(
        self,
        spell_size: Callable[[Dim], str],
        spell_function: Callable[[str, str], str],
        power: str,
    ) -> str:
        """This number as text, sizes, functions and powers in the words of some language."""
        if self.op == "number":
            assert isinstance(self.value, float)
            return spell_number(self.value)
        if self.op == "size":
            assert isinstance(self.value, Dim)
            return spell_size(self.value)
        args = [arg.spell(spell_size, spell_function, power) for arg in self.args]
        if self.op in FUNCTIONS:
            return spell_function(self.op, args[0])
        left = _wrap(args[0], self.args[0], self.op, right=False)
        right = _wrap(args[1], self.args[1], self.op, right=True)
        if self.op == "^":
            return f"{left}{power}{right}"
        return f"{left} {self.op} {right}" if self.op in "+-" else f"{left}{self.op}{right}"


def as_scalar(value: Scalar | float) -> Scalar:
    """A scalar, also from a plain number."""
    return value if isinstance(value, Scalar) else Scalar("number", (), float(value))


def size(dim: Dim) -> Scalar:
    """A size as a real number."""
    constant = dim.constant
    return Scalar("size", (), dim) if constant is None else as_scalar(constant)


def function(name: str, argument: Scalar) -> Scalar:
    """`sqrt`, `exp` or `log` of a number."""
    if argument.op == "number":
        return as_scalar(_computed(name, argument.evaluate({})))
    return Scalar(name, (argument,))


def spell_number(value: float) -> str:
    """A float in the shortest form that reads back the same, whole numbers without a point."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _combine(op: str, left: Scalar, right: Scalar) -> Scalar:
    if left.op == right.op == "number":
        return as_scalar(_computed(op, left.evaluate({}), right.evaluate({})))
    if op == "*" and left == as_scalar(1.0):
        return right
    return Scalar(op, (left, right))


def _float(dim: Dim, sizes: Mapping[str, int]) -> float:
    try:
        return float(dim.evaluate(sizes))
    except OverflowError:
        raise ScalarError(f"{dim} is more than a float holds") from None


def _computed(op: str, *args: float) -> float:
    """Compute an operation on numbers; raises ScalarError if it has no finite result."""
    try:
        result = FUNCTIONS[op](args[0]) if op in FUNCTIONS else _apply(op, *args)
    except (ArithmeticError, ValueError):
        result = math.nan
    if math.isfinite(result):
        return result
    spelled = [spell_number(arg) for arg in args]
    text = f"{op}({spelled[0]})" if op in FUNCTIONS else f" {op} ".join(spelled)
    raise ScalarError(f"{text} is not a finite number")


def _apply(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return math.pow(left, right)  # a root of a negative number is an error, not complex


_BINDING: Final = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}


def _wrap(text: str, inner: Scalar, outer: str, *, right: bool) -> str:
    if inner.op == "size":
        assert isinstance(inner.value, Dim)
        strength = 9 if inner.value.name else 1
    elif inner.op == "number":
        strength = 1 if text.startswith("-") else 9
    else:
        strength = _BINDING.get(inner.op, 9)
    weak = strength < _BINDING[outer] or (right and strength == _BINDING[outer])
    return f"({text})" if weak else text
