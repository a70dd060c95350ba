"""The band of keys that a query sees, read from an operator that hides scores by position.

``op Window(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf)`` is recognized by what it
compares, not by its name: sums of positions and whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.body import Body, topological
from xg.ir.dim import ONE, ZERO, Dim
from xg.ir.prim import Expr, binary, integer
from xg.ir.scalar import Scalar, size
from xg.ir.tensor import Shape


@dataclass(frozen=True, slots=True)
class Band:
    """Query i sees the keys from i - `behind` to i + `ahead`; None is no bound.

    The last query is at the last key.
    """

    behind: Dim | None = None
    ahead: Dim | None = None

    def within(self, other: Band) -> Band | None:
        """The keys in both; None where it depends on sizes which bound is the closer one."""
        behind, ahead = _closer(self.behind, other.behind), _closer(self.ahead, other.ahead)
        return None if behind is None or ahead is None else Band(*behind, *ahead)

    def holds(self, query: Expr, key: Expr) -> Expr:
        """Whether positions of queries see those of keys; a bound is there."""
        seen: list[Expr] = []
        if self.ahead is not None:
            seen.append(binary("ge", _plus(query, self.ahead), key))
        if self.behind is not None:
            seen.append(binary("ge", _plus(key, self.behind), query))
        return seen[0] if len(seen) == 1 else binary("and", *seen)


def _plus(position: Expr, further: Dim) -> Expr:
    return position if further == ZERO else position + integer(size(further))


CAUSAL: Final = Band(None, ZERO)


def _closer(first: Dim | None, second: Dim | None) -> tuple[Dim | None] | None:
    if first is None or second is None or first == second:
        return (second if first is None else first,)
    if first.constant is None or second.constant is None:
        return None
    return (min(first, second, key=lambda bound: bound.constant or 0),)


def band_of(body: Body) -> Band | None:
    """The band where the body gives its one operand, if it gives -inf everywhere else."""
    if len(body.operands) != 1 or len(body.outputs) != 1 or body.outputs[0].prim != "where":
        return None
    (operand,), (chosen,) = body.operands, body.outputs
    condition, yes, no = chosen.args
    holds = yes is operand
    if operand.rank < 2 or chosen.shape != operand.shape or not _hides(no if holds else yes):
        return None
    if not holds and no is not operand:
        return None
    return _band(condition, operand.shape, holds=holds)


def _hides(expr: Expr) -> bool:
    value = expr.attr("value") if expr.prim == "const" else None
    return isinstance(value, Scalar) and value.constant == float("-inf")


@dataclass(frozen=True, slots=True)
class _Line:
    """Positions of a query and of a key, each so often, plus a whole number."""

    query: int
    key: int
    rest: Dim

    def __add__(self, other: _Line) -> _Line:
        return _Line(self.query + other.query, self.key + other.key, self.rest + other.rest)

    def __neg__(self) -> _Line:
        return _Line(-self.query, -self.key, ZERO - self.rest)

    def at_least_zero(self, scores: Shape, *, strict: bool) -> Band | None:
        """The band where this is at least 0, or more than that if `strict`."""
        queries, keys = scores[-2:]
        rest = self.rest - ONE if strict else self.rest
        if (self.query, self.key) == (1, -1):
            return Band(None, rest - (keys - queries))
        if (self.query, self.key) == (-1, 1):
            return Band(rest + (keys - queries), None)
        return None


Lines = tuple[_Line, ...]  # a number that is the largest of these; none for any other number


def _band(condition: Expr, scores: Shape, *, holds: bool) -> Band | None:
    """The band where all comparisons hold, or where none does."""
    known: dict[int, Lines] = {}
    for expr in topological([condition]):
        known[id(expr)] = _lines(expr, [known[id(arg)] for arg in expr.args])
    found, waiting = Band(), [condition]
    while waiting:
        expr = waiting.pop()
        if expr.prim == ("and" if holds else "or"):
            waiting += expr.args
            continue
        if expr.prim not in ("gt", "ge"):
            return None
        sides = [known[id(arg)] for arg in expr.args]
        larger, smaller = sides if holds else sides[::-1]
        if len(larger) != 1 or not smaller:
            return None
        for line in smaller:
            strict = (expr.prim == "gt") == holds
            bound = (larger[0] + -line).at_least_zero(scores, strict=strict)
            both = bound and found.within(bound)
            if both is None:
                return None
            found = both
    return found


def _lines(expr: Expr, args: Sequence[Lines]) -> Lines:
    match expr.prim, args:
        case "const", _:
            value = expr.attr("value")
            if not isinstance(value, Scalar) or not value.is_whole:
                return ()
            return (_Line(0, 0, value.as_dim()),)
        case "iota", _:
            return _counted(expr, -1)
        case "reshape", _:
            (arg,) = expr.args
            is_range = arg.prim == "iota" and expr.shape[0] == arg.shape[0]
            return _counted(arg, -expr.rank) if is_range else ()
        case "as_float" | "broadcast", (lines,):
            return lines
        case "neg", ((line,),):
            return (-line,)
        case "add", ((left,), (right,)):
            return (left + right,)
        case "sub", ((left,), (right,)):
            return (left + -right,)
        case "maximum", (left, right) if left and right:
            return tuple(dict.fromkeys((*left, *right)))
        case _:
            return ()


def _counted(positions: Expr, axis: int) -> Lines:
    """Positions along the axis of queries or of keys."""
    start = positions.attr("start")
    if axis not in (-2, -1) or not isinstance(start, Dim):
        return ()
    return (_Line(int(axis == -2), int(axis == -1), start),)
