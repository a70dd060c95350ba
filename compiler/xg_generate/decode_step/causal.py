"""Prove of a step that no position depends on later ones.

Then a step gives what the whole text would: what was kept of earlier positions could not have come
out otherwise. Facts go forward through the bodies of the operators. A sum over all keys must have
nothing to add at later ones: a 0 there, as softmax makes of the -inf of a causal mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.ir.dim import Dim, Scalar
from xg.ir.functions import FUNCTIONS, UNARY
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.prim import ARITHMETIC, COMPARE, Expr
from xg.ir.walk import answers
from xg_generate.decode_step.errors import LooksAhead

# Facts of a tensor about positions: what it counts, and its constant at later ones.
#
# In a step a tensor has *queries*, axes of new positions (length S), and *keys*, axes of all
# positions so far (T + S). A key is later than a query if its position is greater. Where a tensor
# is a constant for all later keys, as -inf behind a causal mask, that constant is a fact. Unknown
# numbers are assumed to be finite.


Pair = tuple[int, int]  # the axes of a query and of a key, counted from the end

UNKNOWN: Final = None


@dataclass(frozen=True, slots=True)
class Fact:
    """`counts`: the tensor is the position along this axis, plus an offset.

    `later`: its value where the key of a pair of axes is later than the query.
    """

    counts: tuple[int, int] | None = None
    later: frozenset[tuple[Pair, float]] = frozenset()

    def at_later(self, pair: Pair) -> float | None:
        """The value at later keys."""
        return dict(self.later).get(pair)

    def moved(self, axes: Mapping[int, int]) -> Fact:
        """Return the fact after axes moved; facts about an axis that is gone are dropped."""
        counts = None
        if self.counts is not None and self.counts[0] in axes:
            counts = (axes[self.counts[0]], self.counts[1])
        later = {
            ((axes[q], axes[k]), value) for (q, k), value in self.later if q in axes and k in axes
        }
        return Fact(counts, frozenset(later))


def facts_of(later: Mapping[Pair, float | None]) -> Fact:
    """A fact from the values that are known."""
    return Fact(None, frozenset((pair, v) for pair, v in later.items() if v is not None))


_OF_ONE: Final[Mapping[str, Callable[[float], float]]] = {
    "neg": lambda x: -x,
    **{name: each.number for name, each in FUNCTIONS.items() if each.number},
    "stop": float,
    "as_float": float,
    "broadcast": float,
}
_OF_TWO: Final[Mapping[str, Callable[[float, float], float]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": lambda a, b: max(a, b),
    "minimum": lambda a, b: min(a, b),
    "gt": lambda a, b: float(a > b),
    "ge": lambda a, b: float(a >= b),
    "eq": lambda a, b: float(a == b),
    "and": lambda a, b: a * b,
    "or": lambda a, b: max(a, b),
}


def apply(prim: str, values: Sequence[float | None]) -> float | None:
    """Apply an elementwise primitive to numbers; unknown ones are finite."""
    if prim == "where":
        condition, yes, no = values
        if condition is not None:
            return yes if condition else no
        return yes if yes == no else UNKNOWN
    known_values = [value for value in values if value is not None]
    return (
        _computed(prim, known_values) if len(known_values) == len(values) else _partly(prim, values)
    )


def _computed(prim: str, values: Sequence[float]) -> float | None:
    """Evaluate a primitive on known numbers; unknown if the result is no number."""
    try:
        if prim in _OF_ONE:
            result = _OF_ONE[prim](*values)
        elif prim in _OF_TWO:
            result = _OF_TWO[prim](*values)
        else:
            return UNKNOWN
    except (ValueError, ArithmeticError):
        return UNKNOWN
    return UNKNOWN if math.isnan(result) else result


def _partly(prim: str, values: Sequence[float | None]) -> float | None:
    """The result that one known operand decides alone."""
    infinite = [v for v in values if v is not None and math.isinf(v)]
    match prim:
        case "mul" | "and" if 0.0 in values:
            return 0.0
        case "or" if 1.0 in values:
            return 1.0
        case "div" if values[0] == 0.0:
            return 0.0
        case "add" if infinite:
            return infinite[0]
        case "sub" if infinite:
            return infinite[0] if values[0] is not None else -infinite[0]
        case "minimum" if -math.inf in values:
            return -math.inf
        case "maximum" if math.inf in values:
            return math.inf
        case _:
            return UNKNOWN


def compared(prim: str, left: Fact, right: Fact, pair: Pair) -> float | None:
    """Compare positions for later keys; unknown if the facts do not decide it.

    >>> query, key = Fact((-2, 0)), Fact((-1, 0))
    >>> compared("ge", query, key, (-2, -1)), compared("gt", key, query, (-2, -1))
    (0.0, 1.0)
    >>> compared("ge", Fact((-2, 1)), key, (-2, -1))  # the next position is visible
    """
    if left.counts is None or right.counts is None:
        return UNKNOWN
    (a, first), (b, second) = left.counts, right.counts
    query, key = pair
    if (a, b) == (query, key):  # for key = query + 1 and beyond: is query + first … key + second?
        nearest = first - second - 1  # left - right at the first later key; less further on
        false = {"ge": nearest < 0, "gt": nearest <= 0, "eq": nearest < 0}
        return 0.0 if false.get(prim) else UNKNOWN
    if (a, b) == (key, query):
        nearest = first - second + 1
        true = {"ge": nearest >= 0, "gt": nearest > 0}
        return 1.0 if true.get(prim) else 0.0 if prim == "eq" and nearest > 0 else UNKNOWN
    return UNKNOWN


_ELEMENTWISE: Final = UNARY | ARITHMETIC | COMPARE
_ELEMENTWISE_OF_ONE: Final = frozenset({"where", "as_float", "broadcast", "dropout_apply", "pow"})
_WORDS: Final = {"sum": "sum", "mean": "mean", "max": "maximum"}
_NEUTRAL: Final = {"sum": 0.0, "max": -math.inf}
NOTHING: Final = Fact()

Asked = tuple[str, tuple[Fact, ...]]  # a block, and what is known of its inputs
Answer = tuple[Fact, ...]
Checking = Generator[Asked, Answer, Answer]


def check_causal(program: IRProgram, lengths: Mapping[str, str | None], past: Dim) -> None:
    """Raise DiagnosticError for what looks ahead. `lengths` name each graph's new positions."""

    def checking(asked: Asked) -> Checking:
        graph = program.graphs[asked[0]]
        return _CausalChecker(graph, lengths[graph.key], past).check(asked[1])

    first: Asked = (program.entry, (NOTHING,) * len(program.main.inputs))
    answers(first, checking, {})


class _Ahead(Exception):
    """The use that a body makes of all positions."""


@dataclass(slots=True)
class _CausalChecker:
    """Checks one graph."""

    graph: Graph
    length: str | None
    past: Dim
    facts: dict[Value, Fact] = field(default_factory=dict[Value, Fact])

    def check(self, inputs: Sequence[Fact]) -> Checking:
        """Facts of the outputs from facts of the inputs; yields what it asks of its calls."""
        self.facts = dict(zip(self.graph.inputs, inputs, strict=True))
        for step in self.graph.steps:
            if isinstance(step, Apply):
                self._apply(step)
            else:
                yield from self._call(step)
        return tuple(self.facts.get(value, NOTHING) for value in self.graph.outputs)

    def _call(self, call: Call) -> Checking:
        facts = [self.facts.get(value, NOTHING) for value in call.inputs]
        if call.count is not None:
            facts[0] = NOTHING  # another one in each round
        if call.loop is not None:  # one position of each, of which nothing is later
            yield call.callee, (NOTHING,) * len(facts)
            return ()
        outputs = yield call.callee, tuple(facts)
        self.facts.update(zip(call.outputs, outputs, strict=True))
        return outputs

    def _apply(self, step: Apply) -> None:
        body = step.body(self.graph.types)
        facts = {
            id(expr): self.facts.get(value, NOTHING)
            for expr, value in zip(body.operands, step.inputs, strict=True)
        }
        try:
            for expr in body.order():
                if id(expr) not in facts:
                    args = [facts[id(arg)] for arg in expr.args]
                    facts[id(expr)] = self._fact(expr, args)
        except _Ahead as ahead:
            help = "mask later positions before it: SM(…, causal)"
            problem = LooksAhead(step.span, step.op.glyph, str(ahead), help)
            raise DiagnosticError.of(problem) from None
        for value, expr in zip(step.outputs, body.outputs, strict=True):
            self.facts[value] = facts[id(expr)]

    # ---- axes -----------------------------------------------------------------------------------

    def _is_query(self, dim: Dim) -> bool:
        return self.length is not None and dim.name == self.length

    def _is_key(self, dim: Dim) -> bool:
        return self.length is not None and self._is_query(dim - self.past)

    def _queries(self, expr: Expr) -> list[int]:
        return [i - expr.rank for i, dim in enumerate(expr.shape) if self._is_query(dim)]

    def _keys(self, expr: Expr) -> list[int]:
        return [i - expr.rank for i, dim in enumerate(expr.shape) if self._is_key(dim)]

    def _pairs(self, expr: Expr) -> list[Pair]:
        return [(q, k) for q in self._queries(expr) for k in self._keys(expr)]

    # ---- primitives -----------------------------------------------------------------------------

    def _fact(self, expr: Expr, args: Sequence[Fact]) -> Fact:
        if expr.prim in _ELEMENTWISE or expr.prim in _ELEMENTWISE_OF_ONE:
            return self._elementwise(expr, args)
        match expr.prim:
            case "iota":
                return self._iota_fact(expr)
            case "reshape":
                return args[0].moved(self._after_reshape(expr))
            case "transpose":
                axes = {old: new for new, old in enumerate(expr.axes("order"))}
                return args[0].moved({a - expr.rank: b - expr.rank for a, b in axes.items()})
            case "sum" | "mean" | "max":
                return self._reduction_fact(expr, args[0])
            case "contract":
                return self._contraction_fact(expr, args)
            case "concat" | "cut":
                return Fact(None, args[0].later.intersection(*(arg.later for arg in args)))
            case _:
                return NOTHING

    def _iota_fact(self, expr: Expr) -> Fact:
        """Return a fact: integers from T on along queries, or 0 on along keys, are positions."""
        start = expr.typed_attr("start", Dim)
        if self._is_query(expr.shape[0]):
            start = start - self.past
        elif not self._is_key(expr.shape[0]):
            return NOTHING
        return NOTHING if start.constant is None else Fact((-1, start.constant))

    def _elementwise(self, expr: Expr, args: Sequence[Fact]) -> Fact:
        later: dict[Pair, float | None] = {}
        for pair in self._pairs(expr):
            if expr.prim in COMPARE:
                later[pair] = compared(expr.prim, args[0], args[1], pair)
            if later.get(pair) is None:
                values = [_value(a, fact, pair) for a, fact in zip(expr.args, args, strict=True)]
                later[pair] = _scale_infinity(expr, values)
                if later[pair] is None:
                    later[pair] = apply(expr.prim, values)
        fact = facts_of(later)
        if expr.prim in ("as_float", "broadcast"):
            return Fact(args[0].counts, fact.later)
        if expr.prim in ("add", "sub"):
            return Fact(_shift_positions(expr, args), fact.later)
        return fact

    def _after_reshape(self, expr: Expr) -> dict[int, int]:
        """Where the axes of positions are after a change of shape: their order stays."""
        (arg,) = expr.args
        before = sorted([*self._queries(arg), *self._keys(arg)])
        after = sorted([*self._queries(expr), *self._keys(expr)])
        return dict(zip(before, after, strict=True))

    def _reduction_fact(self, expr: Expr, arg: Fact) -> Fact:
        (source,) = expr.args
        gone = {axis % source.rank - source.rank for axis in expr.axes()}
        for key in gone & set(self._keys(source)):
            queries = self._queries(source)
            neutral = _NEUTRAL.get(expr.prim)
            if not queries or any(arg.at_later((q, key)) != neutral for q in queries):
                raise _Ahead(f"takes the {_WORDS[expr.prim]} over all positions")
        left = [axis for axis in range(-source.rank, 0) if axis not in gone]
        if expr.attr("keep"):
            axes_left = {axis: axis for axis in left}
        else:
            axes_left = {axis: place - len(left) for place, axis in enumerate(left)}
        stays = {0.0, -math.inf} if expr.prim == "max" else {0.0}
        return Fact(None, frozenset(one for one in arg.moved(axes_left).later if one[1] in stays))

    def _contraction_fact(self, expr: Expr, args: Sequence[Fact]) -> Fact:
        inputs, output = str(expr.attr("spec")).split("->")
        letters = inputs.split(",")
        dims = {
            letter: dim
            for names, arg in zip(letters, expr.args, strict=True)
            for letter, dim in zip(names, arg.shape, strict=True)
        }

        def is_zero(query: str, key: str) -> bool:
            return any(
                query in names
                and key in names
                and fact.at_later((_place(names, query), _place(names, key))) == 0.0
                for names, fact in zip(letters, args, strict=True)
            )

        queries = [letter for letter in output if self._is_query(dims[letter])]
        for key in (
            letter for letter in dims if letter not in output and self._is_key(dims[letter])
        ):
            if not queries or not all(is_zero(query, key) for query in queries):
                raise _Ahead("sums over all positions")
        keys = [letter for letter in output if self._is_key(dims[letter])]
        return facts_of(
            {
                (_place(output, q), _place(output, k)): 0.0
                for q in queries
                for k in keys
                if is_zero(q, k)
            }
        )


def _place(letters: str, letter: str) -> int:
    return letters.index(letter) - len(letters)


def _scale_infinity(expr: Expr, values: Sequence[float | None]) -> float | None:
    """Return an infinite number if a positive constant multiplies or divides it; else None."""
    if expr.prim not in ("mul", "div") or values[0] is None or not math.isinf(values[0]):
        return None
    factor = expr.args[1].attr("value") if expr.args[1].prim == "const" else None
    return values[0] if isinstance(factor, Scalar) and factor.is_positive else None


def _value(expr: Expr, fact: Fact, pair: Pair) -> float | None:
    """The value of an operand at later keys: a number is the same everywhere."""
    number = _number(expr)
    return fact.at_later(pair) if number is None else number


def _number(expr: Expr) -> float | None:
    value = expr.attr("value") if expr.prim == "const" else None
    return value.constant if isinstance(value, Scalar) else None


def _shift_positions(expr: Expr, args: Sequence[Fact]) -> tuple[int, int] | None:
    """Return positions plus or minus an integer as positions with another offset."""
    for place in (0, 1):
        counts, number = args[place].counts, _number(expr.args[1 - place])
        if counts is not None and number is not None and number.is_integer():
            if expr.prim == "sub" and place == 1:
                return None
            sign = -1 if expr.prim == "sub" else 1
            return counts[0], counts[1] + sign * int(number)
    return None
