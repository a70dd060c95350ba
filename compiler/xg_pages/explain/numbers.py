"""Write arrays as rows of text, and work out the first number of a step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice, product
from typing import Any, Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import topological
from xg.ir.functions import FUNCTIONS
from xg.ir.graph import Apply, Value
from xg.ir.prim import Expr, is_negative_size, of_sigmoid
from xg.ir.tensor import TensorType
from xg.verify.examples.claim_check import Array
from xg.verify.reference.evaluate import MEANING, Context, evaluate

ROWS: Final = 8
COLUMNS: Final = 8
DIGITS: Final = 4
DECIMALS_AT_MOST: Final = 8
LARGE: Final = 1e6  # from here on numbers have exponents
SMALL: Final = 1e-6  # and below this
NOTHING: Final = 1e-12  # of the largest number beside it: the rounding error of a zero


@dataclass(frozen=True, slots=True)
class Rows:
    """The first matrix of an array as texts; `cut` says what is left out, empty for nothing."""

    rows: tuple[tuple[str, ...], ...]
    cut: str


def rows(array: Array) -> Rows:
    """The shown part of an array.

    >>> rows(np.array([[0.13, -2.0], [1e-17, np.inf]]))
    Rows(rows=(('0.13', '-2.00'), ('0.00', '∞')), cut='')
    """
    matrix = array
    while matrix.ndim > 2:
        matrix = matrix[0]
    shown = np.atleast_2d(matrix)[:ROWS, :COLUMNS]
    spell = _speller(shown)
    texts = tuple(tuple(spell(float(number)) for number in row) for row in shown)
    return Rows(texts, _cut(array, shown))


def number(value: float) -> str:
    """One number beside others in a line.

    >>> number(0.130000001), number(12.0), number(-0.0)
    ('0.13', '12', '0')
    """
    text = f"{value + 0.0:.4g}"
    return _special(value) or ("0" if text == "-0" else text)


def shape(array: Array) -> str:
    """``3 × 5``, ``3 numbers``, ``one number``."""
    if len(array.shape) == 1 and array.size != 1:
        return f"{array.size} numbers"
    return "one number" if array.ndim < 2 else " × ".join(map(str, array.shape))


def _cut(array: Array, shown: Array) -> str:
    matrices = math.prod(array.shape[:-2])
    parts = [f"the first of {matrices} matrices"] if matrices > 1 else []
    rows_, columns = np.atleast_2d(array).shape[-2:]
    if rows_ > shown.shape[0]:
        parts.append(f"{shown.shape[0]} of {rows_} rows")
    if columns > shown.shape[1]:
        parts.append(f"{shown.shape[1]} of {columns} columns")
    return ", ".join(parts)


def _speller(shown: Array) -> Callable[[float], str]:
    """How the numbers of one array are written."""
    if np.issubdtype(shown.dtype, np.integer):
        return lambda value: str(int(value))
    sizes = np.abs(shown[np.isfinite(shown)])
    peak = float(sizes.max(initial=0.0))
    if peak and not SMALL <= peak < LARGE:
        return lambda value: _special(value) or f"{_clean(value, peak):.{DIGITS - 1}e}"
    before = math.floor(math.log10(peak)) if peak else 0
    most = min(max(DIGITS - 1 - before, 0), DECIMALS_AT_MOST)
    finite = shown[np.isfinite(shown)]
    enough = (d for d in range(most) if np.all(np.abs(finite.round(d) - finite) <= NOTHING * peak))
    decimals = next(enough, most)
    return lambda value: _special(value) or f"{_clean(value, peak):.{decimals}f}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "" if math.isfinite(value) else "∞" if value > 0 else "-∞"


def _clean(value: float, peak: float) -> float:
    return value if abs(value) > NOTHING * peak else 0.0


# The first number of a step, worked out: `0.1·0.2 + 0.3·0 + 0.5·0.1 = 0.07`.
#
# It is spelled from the operator's own primitives, so every operator has one, forward and backward.


TERMS: Final = 6  # of a longer sum the first ones are shown
LONGEST: Final = 140  # characters; what would be longer shows less of what is inside
DEEPEST: Final = 7
SIGNS: Final = {"add": " + ", "sub": " - ", "mul": "·", "div": "/"}
VIEWS: Final = frozenset({"reshape", "transpose", "broadcast", "cut", "as_float", "stop"})
SUM, PRODUCT, WHOLE = range(3)  # how tightly a text holds together

Index = tuple[int, ...]
Spelled = tuple[str, int]


def worked(
    step: Apply,
    types: Mapping[Value, TensorType],
    values: Mapping[Value, Array],
    sizes: Mapping[str, int],
) -> str:
    """The computation of the first number of a step; empty where it is only moved."""
    body = step.body(types)
    result = body.outputs[0]
    order = list(topological([result]))
    names = (str(expr.name) for expr in body.operands)
    operands = dict(zip(names, (values[value] for value in step.inputs), strict=True))
    context = Context(sizes)
    arrays = evaluate(order, operands, context, order)
    known = {id(expr): np.asarray(array) for expr, array in zip(order, arrays, strict=True)}
    if not known[id(result)].size:
        return ""
    first = (0,) * known[id(result)].ndim
    texts = (_Speller(known, context).spell(result, first, depth)[0] for depth in _DEPTHS)
    text = next((text for text in texts if len(text) <= LONGEST), "")
    said = number(float(known[id(result)][first]))
    return f"{text} = {said}" if text not in ("", said) else ""


_DEPTHS: Final = range(DEEPEST, 0, -1)


@dataclass(frozen=True, slots=True)
class _Speller:
    """Writes elements of expressions whose arrays are known."""

    known: Mapping[int, Array]
    context: Context

    def spell(self, expr: Expr, index: Index, depth: int) -> Spelled:
        """One element; below some depth it is the number itself."""
        if expr.prim in VIEWS:
            return self.spell(*self._source(expr, index), depth)
        if expr.prim == "where":
            chosen = 1 if self._at(expr.args[0], index) else 2
            return self.spell(expr.args[chosen], self._inside(expr.args[chosen], index), depth)
        if not depth or not expr.args:
            return self._number(expr, index)
        return self._computed(expr, index, depth - 1)

    def _computed(self, expr: Expr, index: Index, depth: int) -> Spelled:
        if (x := of_sigmoid(expr)) is not None:  # as it is stated, not as it avoids overflow
            return f"1/(1 + exp(-{_factor(self.spell(x, self._inside(x, index), depth))}))", PRODUCT
        if is_negative_size(expr):
            smaller = min(expr.args, key=lambda x: self._at(x, index))
            return self.spell(smaller, self._inside(smaller, index), depth)
        match expr.prim:
            case "add" | "sub" | "mul" | "div":
                return self._binary(expr, index, depth)
            case "maximum" | "minimum":
                parts = (self.spell(x, self._inside(x, index), depth)[0] for x in expr.args)
                return f"{expr.prim[:3]}({', '.join(parts)})", WHOLE
            case "neg":
                return f"-{_factor(self.spell(expr.args[0], index, depth))}", SUM
            case "pow":
                power = number(self.context.number(expr.attr("exponent")))
                base = _held(self.spell(expr.args[0], index, depth), WHOLE)
                return f"{_positive(base)}^{_positive(power)}", PRODUCT
            case "sum" | "mean" | "max":
                return self._reduced(expr, index, depth)
            case "contract":
                return self._contracted(expr, index, depth)
            case name if name in FUNCTIONS:
                return f"{name}({self.spell(expr.args[0], index, depth)[0]})", WHOLE
            case _:
                return self._number(expr, index)

    def _binary(self, expr: Expr, index: Index, depth: int) -> Spelled:
        a, b = (self.spell(x, self._inside(x, index), depth) for x in expr.args)
        binding = SUM if expr.prim in ("add", "sub") else PRODUCT
        right = binding + (expr.prim in ("sub", "div"))
        return f"{_held(a, binding)}{SIGNS[expr.prim]}{_positive(_held(b, right))}", binding

    def _reduced(self, expr: Expr, index: Index, depth: int) -> Spelled:
        (x,) = expr.args
        gone: Any = expr.attr("axes")
        axes = {axis % x.rank for axis in gone}
        kept = [place for n, place in enumerate(index) if n not in axes or not expr.attr("keep")]
        array = self.known[id(x)]
        lengths = [range(array.shape[axis]) for axis in sorted(axes)]
        elements = (self._joined(x.rank, axes, kept, at) for at in product(*lengths))
        terms = self._terms(self.spell(x, at, depth) for at in elements)
        if expr.prim == "max":
            return f"max({', '.join(text for text, _ in terms)})", WHOLE
        total = _summed(terms)
        if expr.prim == "sum":
            return total
        count = int(np.prod([len(length) for length in lengths]))
        return f"{_held(total, WHOLE)}/{count}", PRODUCT

    @staticmethod
    def _joined(rank: int, gone: set[int], kept: Iterable[int], at: Index) -> Index:
        rest, inside = iter(kept), iter(at)
        return tuple(next(inside) if axis in gone else next(rest) for axis in range(rank))

    def _contracted(self, expr: Expr, index: Index, depth: int) -> Spelled:
        inputs, result = str(expr.attr("spec")).split("->")
        letters = inputs.split(",")
        lengths: dict[str, int] = {}
        for names, x in zip(letters, expr.args, strict=True):
            lengths.update(zip(names, self.known[id(x)].shape, strict=True))
        summed = [letter for letter in lengths if letter not in result]
        places = dict(zip(result, index, strict=True))

        def term(at: Index) -> Spelled:
            here = {**places, **dict(zip(summed, at, strict=True))}
            pair = (
                _factor(self.spell(x, tuple(here[letter] for letter in names), depth))
                for names, x in zip(letters, expr.args, strict=True)
            )
            return "·".join(pair), PRODUCT

        ranges = (range(lengths[letter]) for letter in summed)
        return _summed(self._terms(map(term, product(*ranges))))

    @staticmethod
    def _terms(all_terms: Iterable[Spelled]) -> list[Spelled]:
        terms = list(islice(all_terms, TERMS + 1))
        return [*terms[:TERMS], ("…", WHOLE)] if len(terms) > TERMS else terms

    # ---- elements -------------------------------------------------------------------------------

    def _number(self, expr: Expr, index: Index) -> Spelled:
        return number(float(self._at(expr, index))), WHOLE

    def _at(self, expr: Expr, index: Index) -> float:
        return float(self.known[id(expr)][self._inside(expr, index)])

    def _inside(self, expr: Expr, index: Index) -> Index:
        """Where an element of a broadcast result is in an argument."""
        shape = self.known[id(expr)].shape
        own = index[len(index) - len(shape) :]
        return tuple(0 if size == 1 else at for size, at in zip(shape, own, strict=True))

    def _source(self, expr: Expr, index: Index) -> tuple[Expr, Index]:
        """Where an element of a view comes from."""
        (x,) = expr.args
        shape = self.known[id(x)].shape
        numbered = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
        moved = MEANING[expr.prim](expr, self.context, numbered)
        flat = int(moved[index]) if numbered.ndim else 0
        return x, tuple(int(at) for at in np.unravel_index(flat, shape))


def _summed(terms: list[Spelled]) -> Spelled:
    if len(terms) == 1:
        return terms[0]
    first, *others = (text for text, _ in terms)
    signs = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)
    return first + "".join(signs), SUM


def _held(spelled: Spelled, binding: int) -> str:
    text, own = spelled
    return f"({text})" if own < binding else text


def _factor(spelled: Spelled) -> str:
    return _positive(_held(spelled, PRODUCT))


def _positive(text: str) -> str:
    """A text that no sign is before, in brackets if it begins with one."""
    return f"({text})" if text.startswith("-") else text
