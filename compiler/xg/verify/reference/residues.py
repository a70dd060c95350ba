"""Define every primitive over the integers modulo a prime; `evaluate` defines it for floats.

Primitives that only move numbers, compare them or draw dropout's mask are the same for floats.
Integers stay integers. A maximum is that of the residues' order, so the maximum of parts is that of
the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from math import prod
from typing import Final, NamedTuple

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.collectives import OWNERS
from xg.ir.functions import FUNCTIONS
from xg.ir.graph import IRProgram
from xg.ir.prim import COMPARE, Expr
from xg.ir.tensor import TensorType
from xg.ir.walk import param_specs
from xg.verify.reference.evaluate import MEANING, Context, Meaning, Mesh, NumberSystem, noise
from xg.verify.reference.interpret import Arrays, Interpreter, Record
from xg.verify.reference.random import key, words
from xg.verify.reference.random import key as key_of
from xg_runtime.module import Array

# The integers modulo a prime, as arrays.
#
# A residue is an int64 between -p/2 and p/2, so that small integers are themselves and comparing
# residues compares them in that order. Products of two fit into 64 bits.
#
# One number is outside: MINUS_INFINITY is the -inf of masked scores. It is below every residue, so
# that comparisons and maxima need nothing special, and it stays itself in sums and products; only
# an exponential turns it into a residue, 0. An operation without a meaning, as -inf - -inf and the
# inverse of 0, raises Undefined: another draw of the inputs is likely to avoid it.


PRIMES: Final = (2**31 - 1, 2**31 - 19, 2**31 - 61)
MINUS_INFINITY: Final = -(2**61)
HIDDEN: Final = MINUS_INFINITY // 2  # no sum of residues goes below, and -inf plus one stays below
SIMPLE: Final = 2**20  # the largest denominator that a float is taken for a rounded fraction with
ROUNDING: Final = 2.0**-50  # how far, relatively, such a float may have been rounded


class Undefined(ArithmeticError):
    """A number that does not exist."""


@dataclass(frozen=True, slots=True)
class Field:
    """The integers modulo an odd prime below 2³¹."""

    prime: int

    @property
    def half(self) -> int:
        """The largest residue."""
        return self.prime // 2

    def wrap(self, x: Array) -> Array:
        """Any integers as residues."""
        return (x + self.half) % self.prime - self.half

    def wrap_sum(self, x: Array) -> Array:
        """Wrap sums of two residues, each of them possibly -inf."""
        if not hides(x):
            return self.wrap(x)
        return np.where(x <= HIDDEN, MINUS_INFINITY, self.wrap(x))

    def inverse(self, x: Array) -> Array:
        """The inverse of each residue: one inversion for all, by Montgomery's trick."""
        finite(x)
        flat: list[int] = x.ravel().tolist()
        prime = self.prime
        before = list(accumulate(flat, lambda a, b: a * b % prime, initial=1))
        if before[-1] == 0:
            raise Undefined("the inverse of 0")
        rest = pow(before[-1], -1, prime)
        numbers = [0] * len(flat)
        for place in range(len(flat) - 1, -1, -1):
            numbers[place] = rest * before[place] % prime
            rest = rest * flat[place] % prime
        return self.wrap(np.array(numbers, dtype=np.int64).reshape(x.shape))

    def number(self, value: float) -> int:
        """A real number: the fraction that it is."""
        return _number(value, self.prime)


@lru_cache(maxsize=4096)
def _number(value: float, prime: int) -> int:
    if value == float("-inf"):
        return MINUS_INFINITY
    fraction = as_fraction(value)
    if fraction.denominator % prime == 0:
        raise Undefined("the inverse of 0")
    residue = fraction.numerator * pow(fraction.denominator, -1, prime)
    return (residue + prime // 2) % prime - prime // 2


def as_fraction(value: float) -> Fraction:
    """A float as a fraction: the simple one that it was rounded from, else its shortest decimal.

    So a third is 1/3 whether a program divides by 3 or multiplies by 1/3, and 0.1 is 1/10.
    """
    simple = Fraction(value).limit_denominator(SIMPLE)
    if abs(float(simple) - value) <= ROUNDING * abs(value):
        return simple
    return Fraction(repr(value))


def hides(x: Array) -> bool:
    """Whether some of it is -inf."""
    return bool(x.min(initial=0) <= HIDDEN)


def finite(*arrays: Array) -> None:
    """Refuse -inf."""
    if any(map(hides, arrays)):
        raise Undefined("-inf where a number is needed")


# Sums of products of residues that no 64 bits overflow.


FEW: Final = 4  # products of residues, below 2⁶⁰ each, that 64 bits hold the sum of
LIMB: Final = 15  # bits of the lower part of a factor
BLOCK: Final = 256  # products of a part and a residue, below 2⁴⁵, that a float holds the sum of
MANY: Final = 2**17  # such products that 64 bits hold the sum of
SMALL: Final = 2**12  # multiplications up to which calling BLAS costs more than it saves


def contract(field: Field, spec: str, a: Array, b: Array) -> Array:
    """Sum of products in index letters, ``"bik,kj->bij"``, any number of them."""
    finite(a, b)
    inputs, output = spec.split("->")
    left, right = inputs.split(",")
    sizes = dict(zip(left + right, a.shape + b.shape, strict=True))
    summed = [letter for letter in sizes if letter not in output]
    terms = prod(sizes[letter] for letter in summed)
    if terms <= FEW:
        return field.wrap(np.asarray(np.einsum(spec, a, b)))
    shared = all(letter in left and letter in right for letter in summed)
    if shared and prod(sizes.values()) > SMALL:
        return _in_blocks(field, _Letters(left, right, output), a, b)
    assert terms <= MANY
    upper, lower = (np.einsum(spec, part, b) for part in _parts(a))
    return _join_limbs(field, np.asarray(upper), np.asarray(lower))


def _parts(x: Array) -> tuple[Array, Array]:
    """The upper and the lower bits of residues: ``x = 2¹⁵ upper + lower``."""
    upper = (x + (1 << (LIMB - 1))) >> LIMB
    return upper, x - (upper << LIMB)


def _join_limbs(field: Field, upper: Array, lower: Array) -> Array:
    return field.wrap((upper % field.prime << LIMB) + lower)


class _Letters(NamedTuple):
    """The index letters of a product of matrices, one for each of a batch."""

    left: str
    right: str
    output: str

    def of(self, left: bool, right: bool, output: bool) -> str:
        """The letters that occur in exactly these."""
        there = dict.fromkeys(self.left + self.right)
        where = (left, right, output)
        return "".join(c for c in there if tuple(c in word for word in self) == where)


def _in_blocks(field: Field, letters: _Letters, a: Array, b: Array) -> Array:
    """As products of matrices of floats, each of so few terms that every sum is exact."""
    batch, summed = letters.of(True, True, True), letters.of(True, True, False)
    rows, columns = letters.of(True, False, True), letters.of(False, True, True)
    sizes = dict(zip(letters.left + letters.right, a.shape + b.shape, strict=True))
    groups = [[sizes[letter] for letter in group] for group in (batch, rows, columns, summed)]
    count, height, width, terms = map(prod, groups)
    x = np.einsum(f"{letters.left}->{batch + rows + summed}", a).reshape(count, height, terms)
    y = np.einsum(f"{letters.right}->{batch + summed + columns}", b).reshape(count, terms, width)
    total = np.zeros((count, height, width), dtype=np.int64)
    for start in range(0, terms, BLOCK):
        block = y[:, start : start + BLOCK].astype(np.float64)
        parts = _parts(x[:, :, start : start + BLOCK])
        upper, lower = ((part.astype(np.float64) @ block).astype(np.int64) for part in parts)
        total = field.wrap(total + _join_limbs(field, upper, lower))
    whole = total.reshape([size for group in groups[:3] for size in group])
    return np.einsum(f"{batch + rows + columns}->{letters.output}", whole)


# Stand-ins for the functions of analysis: one fixed function of residues for each name.
#
# They have none of the properties of exp, log and their like, on purpose: a program that is right
# only by such a property does not pass for the same algebra. A softmax shifted by another maximum
# is another softmax.


# Exponentials are 1 … 2²⁰, so that sums of fewer than 1024 of them are positive, as programs trust.
POSITIVE: Final = 2**20


def mix(field: Field, name: str, x: Array) -> Array:
    """A cubic of the residue whose coefficients are drawn by name."""
    finite(x)
    return _cubic(field, name, x)


def exponential(field: Field, x: Array) -> Array:
    """Positive, and 0 of -inf."""
    is_number = x > HIDDEN
    mixed = _cubic(field, "exp", np.where(is_number, x, 0))
    return np.where(is_number, (mixed & (POSITIVE - 1)) + 1, 0)


def _cubic(field: Field, name: str, x: Array) -> Array:
    linear, constant = _coefficients(field.prime, name)
    square = (x % field.prime) ** 2 % field.prime
    return field.wrap((square + linear) % field.prime * x + constant)


@lru_cache(maxsize=1024)
def _coefficients(prime: int, name: str) -> tuple[int, int]:
    linear, constant = words(key_of(prime, name), 2)
    return int(linear) % prime, int(constant) % prime


SAME: Final = (
    *("iota", "stop", "maximum", "minimum", *COMPARE, "where", "max", "reshape", "transpose"),
    *("broadcast", "concat", "cut", "pad", "window", "gather", "pick", "place", "dropout_keep"),
    *("top", "earlier"),
)
# Between ranks: what moves numbers or takes the largest is the same, a sum is one of residues.
SUMMED: Final = tuple(name for name, each in OWNERS.items() if each.sums)
MOVED: Final = tuple(name for name, each in OWNERS.items() if not each.sums)
MIXED: Final = tuple(FUNCTIONS)  # but for `exp`, which has a rule below: its result is positive


@lru_cache(maxsize=8)
def modulo(prime: int) -> NumberSystem:
    """The arithmetic of residues modulo an odd prime below 2³¹."""
    rules = _ResidueRules(Field(prime))
    same = [name for name in (*SAME, *MOVED) if name in MEANING]
    meanings: dict[str, Meaning] = {name: MEANING[name] for name in same}
    meanings |= {name: rules.rank_sum_rule(MEANING[name]) for name in SUMMED if name in MEANING}
    meanings |= {name: rules.function_rule(name) for name in MIXED}
    meanings |= {name: _plain(rule) for name, rule in rules.plain().items()}
    meanings |= rules.asking()
    return NumberSystem(meanings, rules.add)


def _plain(function: Callable[..., Array]) -> Meaning:
    """The meaning of a primitive that asks for nothing but its arguments; integers stay such."""

    def meaning(expr: Expr, context: Context, *args: Array) -> Array:
        return MEANING[expr.prim](expr, context, *args) if expr.kind == "int" else function(*args)

    return meaning


@dataclass(frozen=True, slots=True)
class _ResidueRules:
    """The primitives that differ between residues and floats."""

    field: Field

    def plain(self) -> dict[str, Callable[..., Array]]:
        """By the arguments alone."""
        return {
            "neg": self.neg, "add": self.add, "sub": self.sub, "mul": self.mul, "div": self.div,
            "exp": partial(exponential, self.field), "as_float": self.field.wrap,
        }  # fmt: skip

    def asking(self) -> dict[str, Meaning]:
        """By attributes and sizes too."""
        return {
            "const": self.const, "pow": self.pow, "sum": self.sum, "mean": self.mean,
            "contract": self.contract, "cumsum": self.cumsum,
            "scatter_add": self.element_sum_rule("scatter_add"),
            "overlap": self.element_sum_rule("overlap"),
            "dropout_apply": self.dropout_apply, "draw": self.draw,
        }  # fmt: skip

    def function_rule(self, name: str) -> Meaning:
        """A function of analysis."""
        return _plain(partial(mix, self.field, name))

    def rank_sum_rule(self, meaning: Meaning) -> Meaning:
        """A sum over ranks, by the way that it sums floats."""

        def total(expr: Expr, context: Context, x: Array) -> Array:
            finite(x)
            return self.field.wrap(meaning(expr, context, x))

        return total

    # ---- elementwise ----------------------------------------------------------------------------

    def neg(self, x: Array) -> Array:
        finite(x)
        return -x

    def add(self, a: Array, b: Array) -> Array:
        return self.field.wrap_sum(a + b)

    def sub(self, a: Array, b: Array) -> Array:
        finite(b)
        return self.field.wrap_sum(a - b)

    def mul(self, a: Array, b: Array) -> Array:
        """Multiply; -inf times a nonzero number is -inf, so that masked scores can be scaled."""
        if not hides(a) and not hides(b):
            return self.field.wrap(a * b)
        hidden = (a <= HIDDEN) | (b <= HIDDEN)
        if (hidden & ((a == 0) | (b == 0))).any():
            raise Undefined("-inf times 0")
        product = np.where(a <= HIDDEN, 0, a) * np.where(b <= HIDDEN, 0, b)
        return np.where(hidden, MINUS_INFINITY, self.field.wrap(product))

    def div(self, a: Array, b: Array) -> Array:
        return self.mul(a, self.field.inverse(b))

    def pow(self, expr: Expr, context: Context, x: Array) -> Array:
        """A power, of a whole exponent; a root is a function like others."""
        finite(x)
        exponent = context.number(expr.attr("exponent"))
        if not exponent.is_integer() or abs(exponent) > 64:
            return mix(self.field, f"pow {exponent!r}", x)
        factor = x if exponent >= 0 else self.field.inverse(x)
        power = np.ones_like(x)
        for _ in range(abs(int(exponent))):
            power = self.field.wrap(power * factor)
        return power

    # ---- numbers and sums -----------------------------------------------------------------------

    def const(self, expr: Expr, context: Context) -> Array:
        value = context.number(expr.attr("value"))
        return np.asarray(int(value) if expr.kind == "int" else self.field.number(value))

    def sum(self, expr: Expr, context: Context, x: Array) -> Array:
        if expr.kind == "int" or not hides(x):
            total = MEANING["sum"](expr, context, x)
            return total if expr.kind == "int" else self.field.wrap(total)
        hidden = MEANING["max"](expr, context, x <= HIDDEN)
        shown = MEANING["sum"](expr, context, np.where(x <= HIDDEN, 0, x))
        return np.where(hidden, MINUS_INFINITY, self.field.wrap(shown))

    def mean(self, expr: Expr, context: Context, x: Array) -> Array:
        count = prod(x.shape[axis] for axis in expr.axes())
        return self.div(self.sum(expr, context, x), np.asarray(count))

    def contract(self, expr: Expr, context: Context, a: Array, b: Array) -> Array:
        return contract(self.field, str(expr.attr("spec")), a, b)

    def cumsum(self, expr: Expr, context: Context, x: Array) -> Array:
        finite(x)
        return self.field.wrap(MEANING["cumsum"](expr, context, x))

    def element_sum_rule(self, prim: str) -> Meaning:
        """A sum of elements at their places, by the way that it sums floats."""

        def total(expr: Expr, context: Context, x: Array, *ids: Array) -> Array:
            finite(x)
            return self.field.wrap(MEANING[prim](expr, context, x, *ids))

        return total

    def dropout_apply(self, expr: Expr, context: Context, x: Array, keep: Array) -> Array:
        if context.key is None:
            return x
        scale = 1 / (1 - context.number(expr.attr("p"))) if expr.attr("scaled") else 1.0
        return np.where(keep, self.mul(x, np.asarray(self.field.number(scale))), 0)

    def draw(self, expr: Expr, context: Context, mean: Array) -> Array:
        """Whole steps, of a length that is a fraction."""
        if context.key is None:
            return mean
        start, steps, length = noise(expr, context, mean)
        return self.add(start, self.field.wrap(steps * self.field.number(length)))


# Residues compared in an order drawn at random, for proofs that hold whatever is compared.
#
# Residues have no order that tells anything about the numbers that they stand for: none is between
# 0 and 1, and 1/2 is larger than most integers. In the order of the residues a clipped number is
# always at an end of its range, and its gradient is always zero. So each residue gets a rank by a
# random function, few enough that ties are tried too. A claim about all programs that differ in
# what is larger is a claim about the one with numbers. Integers keep their order: they are
# themselves.


RANKS: Final = 16


@lru_cache(maxsize=32)
def modulo_in_random_order(prime: int, seed: int) -> NumberSystem:
    """Return the arithmetic of `modulo`, whose comparisons go by ranks that `seed` draws."""
    field = Field(prime)

    def rank(x: Array) -> Array:
        is_number = x > HIDDEN
        mixed = mix(field, f"order {seed}", np.where(is_number, x, 0))
        return np.where(is_number, (mixed >> 4) % RANKS, -1)  # -inf stays the smallest

    def compared(prim: str) -> Meaning:
        def meaning(expr: Expr, context: Context, *args: Array) -> Array:
            floats = any(arg.kind == "float" for arg in expr.args)
            ranked = map(rank, args) if floats else args
            return MEANING[prim](expr, context, *ranked)

        return meaning

    def chosen(choose: Callable[[Array, Array], Array]) -> Meaning:
        def meaning(expr: Expr, context: Context, a: Array, b: Array) -> Array:
            if expr.kind == "int":
                return MEANING[expr.prim](expr, context, a, b)
            a, b = np.broadcast_arrays(a, b)
            return np.where(choose(rank(a), rank(b)), a, b)

        return meaning

    def largest(expr: Expr, context: Context, x: Array) -> Array:
        if expr.kind == "int":
            return MEANING["max"](expr, context, x)
        axes = expr.axes()
        last = range(x.ndim - len(axes), x.ndim)
        flat = np.moveaxis(x, axes, last)
        flat = flat.reshape(*flat.shape[: x.ndim - len(axes)], -1)
        best = np.argmax(rank(flat), axis=-1)
        found = np.take_along_axis(flat, best[..., None], axis=-1)[..., 0]
        return np.expand_dims(found, axes) if expr.attr("keep") else found

    def top(expr: Expr, context: Context, x: Array) -> Array:
        return MEANING["top"](expr, context, rank(x))

    meanings = {
        **modulo(prime).meanings,
        **{prim: compared(prim) for prim in ("gt", "ge", "eq")},
        "maximum": chosen(np.greater_equal),
        "minimum": chosen(np.less_equal),
        "max": largest,
        "top": top,
    }
    return NumberSystem(meanings, modulo(prime).add)


# A program run forward and backward on random residues, by the interpreter.


DRAWS: Final = 8  # of inputs, until one needs no number that does not exist


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs of a run: parameters by path, inputs and cotangents by name, dropout's seed."""

    prime: int
    params: Arrays
    inputs: Arrays
    cotangents: Arrays
    seed: int

    def each(self, change: Callable[[Arrays], Arrays]) -> RunInputs:
        """The same with arrays changed by name, as into one rank's parts of them."""
        params, inputs = change(self.params), change(self.inputs)
        return replace(self, params=params, inputs=inputs, cotangents=change(self.cotangents))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: outputs by name, gradients by the path or name of their tensor."""

    outputs: Arrays
    gradients: Arrays

    def each(self, change: Callable[[Arrays], Arrays]) -> Outcome:
        """The same with arrays changed by name, as from one rank's parts to the wholes."""
        return Outcome(change(self.outputs), change(self.gradients))

    def first_difference(self, other: Outcome) -> str | None:
        """Return the first array that differs between two runs; None if all are equal."""
        for name in [*self.outputs, *other.outputs]:
            if not _equal(self.outputs.get(name), other.outputs.get(name)):
                return name
        for name in [*self.gradients, *other.gradients]:
            if not _equal(self.gradients.get(name), other.gradients.get(name)):
                return f"d{name}"
        return None


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


def draw(program: IRProgram, prime: int, seed: int) -> RunInputs:
    """Random residues, and random integers in their ranges; every size needs its number."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    params = {
        path: TensorType(graph.sizes.expand_type(param.type).substitute(symbols).shape)
        for path, param, graph, symbols in param_specs(program)
    }
    inputs = {str(value.name): main.types[value] for value in main.inputs}
    outputs = zip(main.output_names, main.outputs, strict=True)
    seeds = {name: main.types[value] for name, value in outputs if main.types[value].is_float}

    def drawn(role: str, types: Mapping[str, TensorType]) -> Iterator[tuple[str, Array]]:
        for name, type_ in types.items():
            shape = tuple(dim.evaluate(numbers) for dim in type_.shape)
            bound = prime if type_.range is None else type_.range.evaluate(numbers)
            below = _below(key(seed, f"{role} {name}"), shape, bound)
            yield name, Field(prime).wrap(below) if type_.is_float else below

    return RunInputs(
        prime,
        dict(drawn("param", params)),
        dict(drawn("input", inputs)),
        dict(drawn("cotangent", seeds)),
        seed,
    )


def _below(stream: int, shape: tuple[int, ...], bound: int) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return (words(stream, count) % np.uint64(bound)).astype(np.int64).reshape(shape)


def run(
    program: IRProgram,
    given: RunInputs,
    mesh: Mesh | None = None,
    arithmetic: NumberSystem | None = None,
) -> Outcome:
    """Outputs and, if the program has a backward pass, gradients; Undefined where a number is.

    One rank's program runs on its `mesh`, on its own parts of the inputs. `arithmetic` may be
    another than that of the prime, as one with a planted error.
    """
    return run_with_record(program, given, mesh, arithmetic)[0]


def run_with_record(
    program: IRProgram,
    given: RunInputs,
    mesh: Mesh | None = None,
    arithmetic: NumberSystem | None = None,
) -> tuple[Outcome, Record]:
    """The same, with the record of all values."""
    runner = interpreter(program, given, mesh, arithmetic)
    outputs, record = runner.forward(given.inputs)
    gradients = runner.backward(record, given.cotangents) if program.backwards else {}
    return Outcome(outputs, gradients), record


def interpreter(
    program: IRProgram,
    given: RunInputs,
    mesh: Mesh | None = None,
    arithmetic: NumberSystem | None = None,
) -> Interpreter:
    """An interpreter on residues, for callers that need its records."""
    return Interpreter(
        program,
        given.params,
        given.seed,
        arithmetic=arithmetic or modulo(given.prime),
        mesh=mesh,
    )


def run_drawn(
    program: IRProgram, prime: int = PRIMES[0], seed: int = 0, params: Arrays | None = None
) -> tuple[RunInputs, Outcome]:
    """A run on random residues that needs no number that does not exist, as the inverse of 0.

    `params` are drawn too, unless they are given. Raises Undefined if none is found: then the
    program itself asks for one.
    """
    for attempt in range(DRAWS):
        inputs = draw(program, prime, key(seed, f"draw {attempt}"))
        inputs = inputs if params is None else replace(inputs, params=params)
        try:
            return inputs, run(program, inputs)
        except Undefined:
            if attempt == DRAWS - 1:
                raise
    raise AssertionError
