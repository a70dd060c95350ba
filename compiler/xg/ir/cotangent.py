"""Cotangents that are 0 wherever a condition says that the value was not chosen.

``select(x > 0, sqrt(x), 0)`` is finite everywhere, though ``sqrt`` has no slope where x <= 0. Its
gradient is ``where(x > 0, d / (2 sqrt(x)), 0)``: the zero comes last. ``where(x > 0, d, 0)``
divided by ``2 sqrt(x)`` would be 0/0, so the reverse sweep keeps the condition beside the
cotangent until something reads the cotangent as a whole.

Under a plan each rank uses the condition of its own part on its own term of a sum. If none of its
values was chosen, its term is 0 already. The condition of all ranks would cost an all-reduce for
the same sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import ONE
from xg.ir.prim import Expr, broadcast, const, maximum, reduce_max, reduce_sum, where
from xg.ir.tensor import Shape

Map = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition that opens (`holds`) or shuts the way of a cotangent.

    `applied` says that the value is 0 already where the gate is shut.
    """

    condition: Expr
    holds: bool = True
    applied: bool = False

    def close(self, value: Expr) -> Expr:
        """The value, 0 where the gate is shut."""
        return (
            where(self.condition, value, 0.0) if self.holds else where(self.condition, 0.0, value)
        )


@dataclass(frozen=True, slots=True)
class Cotangent:
    """A value that counts only where all gates are open."""

    value: Expr
    gates: tuple[Gate, ...] = ()

    @property
    def closed(self) -> Expr:
        """Return the value with all gates applied: 0 where one is shut."""
        return _close_gates([gate for gate in self.gates if not gate.applied], self.value)

    def through(self, gate: Gate) -> Cotangent:
        """Add one more gate."""
        return replace(self, gates=(*self.gates, gate))

    def with_multiple(self, value: Expr) -> Cotangent:
        """Set the value to a multiple, with any slope, even NaN, where a gate is shut."""
        return Cotangent(value, tuple(replace(gate, applied=False) for gate in self.gates))

    def moved(self, value: Expr, shape: Shape, move: Map) -> Cotangent:
        """Set the value to the closed one, moved, and move the gates of its shape likewise."""
        conditions = [(move(broadcast(g.condition, shape)), g.holds) for g in self.gates]
        return Cotangent(value, tuple(Gate(c, holds, applied=True) for c, holds in conditions))

    def sum_to_shape(self, shape: Shape) -> Cotangent:
        """Sum over the axes along which a `shape` was repeated; open where any part was."""
        if self.value.shape == shape:
            return self
        total = unbroadcast(self.closed, shape)
        if not self.gates:
            return Cotangent(total)
        spread = broadcast(self._open(), self.value.shape)
        return Cotangent(total, (_positive(_reduce_to_shape(spread, shape, any_open)),))

    def plus(self, other: Cotangent) -> Cotangent:
        """The sum of two: open where either is."""
        shared = _shared(self.gates, other.gates)
        if len(self.gates) == len(other.gates) == len(shared):
            same = all(a.applied == b.applied for a, b in zip(self.gates, other.gates, strict=True))
            total = self.value + other.value
            return replace(self, value=total) if same else self.with_multiple(total)
        if _opposite(self.gates, other.gates, len(shared)):
            last = self.gates[-1]
            yes, no = (self, other) if last.holds else (other, self)
            return Cotangent(where(last.condition, yes.value, no.value), shared)
        total = self.closed + other.closed
        if not self.gates or not other.gates:
            return Cotangent(total)
        return Cotangent(total, (_positive(maximum(self._open(), other._open())),))

    def _open(self) -> Expr:
        """1 where all gates are open, else 0."""
        return _close_gates(self.gates, const(1.0))


def any_open(x: Expr, axes: Sequence[int] | int = -1, *, keep: bool = True) -> Expr:
    """Whether any is open, of gates that are 1 or 0: a maximum that each rank takes of its own."""
    largest = reduce_max(x, axes, keep=keep)
    return replace(largest, attrs=(*largest.attrs, ("gate", True)))


def unbroadcast(x: Expr, shape: Shape) -> Expr:
    """The seed's reduce_like: sum over the axes along which a `shape` was repeated (000, 3.1)."""
    return _reduce_to_shape(x, shape, reduce_sum)


def _reduce_to_shape(x: Expr, shape: Shape, reduce: Callable[..., Expr]) -> Expr:
    if x.shape == shape:
        return x
    extra = x.rank - len(shape)
    leading = tuple(range(-x.rank, -len(shape)))
    repeated = tuple(
        i - len(shape) for i, dim in enumerate(shape) if dim == ONE and x.shape[extra + i] != ONE
    )
    reduced = reduce(x, repeated) if repeated else x
    return reduce(reduced, leading, keep=False) if leading else reduced


def _positive(indicator: Expr) -> Gate:
    return Gate(indicator > 0.0, applied=True)


def _close_gates(gates: Sequence[Gate], value: Expr) -> Expr:
    for gate in reversed(gates):
        value = gate.close(value)
    return value


def _shared(a: Sequence[Gate], b: Sequence[Gate]) -> tuple[Gate, ...]:
    """Return the gates that two cotangents have in common, from the first on."""
    shared: list[Gate] = []
    for x, y in zip(a, b, strict=False):
        if x.condition is not y.condition or x.holds != y.holds:
            break
        shared.append(replace(x, applied=x.applied and y.applied))
    return tuple(shared)


def _opposite(a: Sequence[Gate], b: Sequence[Gate], shared: int) -> bool:
    """Return whether only the last gates differ: one condition, open on opposite sides."""
    return len(a) == len(b) == shared + 1 and a[-1].condition is b[-1].condition
