"""Facts of a tensor about positions: what it counts, and its constant at later ones.

In a step a tensor has *queries*, axes of new positions (length S), and *keys*, axes of all
positions so far (T + S). A key is later than a query if its position is greater. Where a tensor is
a constant for all later keys, as -inf behind a causal mask, that constant is a fact. Unknown
numbers are assumed to be finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass

Pair = tuple[int, int]  # the axes of a query and of a key, counted from the end

UNKNOWN: Final = None
LARGEST_EXPONENT: Final = 700.0  # beyond it math.exp raises


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
        """The same fact after axes moved; facts about an axis that is gone are dropped."""
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
    "exp": lambda x: math.inf if x > LARGEST_EXPONENT else math.exp(x),
    "sqrt": math.sqrt,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
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
    """An elementwise primitive on numbers of which some are unknown, but finite."""
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
    """The result on known numbers; unknown where they have none."""
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
    """The result of a comparison of positions for later keys.

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
