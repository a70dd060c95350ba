"""Runs an operator on random operands: its value, its gradient, and what differences say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ops.sample import SIZES, Sample, settle

from xg import ops
from xg.ir.body import Body, topological
from xg.ir.op import Gradient, Op, Term
from xg.ir.prim import Expr
from xg.ir.tensor import TensorType
from xg.ir.use import Attrs
from xg.verify.reference.evaluate import Context, Stopped, evaluate

Array = NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Trial:
    """One use of an operator on arrays; dropout is drawn from a fixed key."""

    op: Op
    sample: Sample
    attrs: Attrs
    arrays: Arrays
    context: Context

    @classmethod
    def make(
        cls,
        op: Op,
        sample: Sample,
        seed: int = 0,
        scale: float = 1.0,
        sizes: Mapping[str, int] = SIZES,
        dtype: type[np.floating[Any]] = np.float64,
    ) -> Trial:
        random = np.random.default_rng(seed)
        context = Context(sizes, dtype, key=seed)
        arrays = {
            name: _draw(random, context, type_, scale, name in sample.unit)
            for name, type_ in sample.operands.items()
        }
        return cls(op, sample, settle(op, sample), arrays, context)

    def without_closed_form(self) -> Trial:
        """The same trial with the gradient derived from the body."""
        return replace(self, op=replace(self.op, adjoint=None, pullback=None))

    @cached_property
    def body(self) -> Body:
        """The computation of this use."""
        return self.op.body(self.sample.types, self.attrs)

    @cached_property
    def _order(self) -> list[Expr]:
        return list(topological(self.body.outputs))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Of the outputs that a user sees."""
        return self.op.output_names(len(self.body.outputs) - len(self.body.caches))

    def outputs(
        self, arrays: Mapping[str, Array] | None = None, context: Context | None = None
    ) -> Arrays:
        """Every output by its name, caches too."""
        operands, context = arrays or self.arrays, context or self.context
        values = evaluate(self.body.outputs, operands, context, self._order)
        return dict(zip((*self._names, *self.body.caches), values, strict=True))

    @cached_property
    def cotangents(self) -> Arrays:
        """A random cotangent for each visible float output."""
        random = np.random.default_rng(1)
        dtype = self.context.dtype
        return {
            "d" + name: np.asarray(random.normal(size=self.context.shape(out.shape)), dtype)
            for name, out in zip(self._names, self.body.outputs, strict=False)
            if out.kind == "float"
        }

    def gradients(self) -> Arrays:
        """For every float operand; one that the operator leaves out is zero."""
        floats = [name for name, type_ in self.sample.operands.items() if type_.is_float]
        given = self._given() if floats else {}
        assert set(given) <= set(floats)
        return {name: given.get(name, np.zeros_like(self.arrays[name])) for name in floats}

    def _given(self) -> Arrays:
        if self.op.pullback:
            return self._pulled(self.op.pullback(self.attrs))
        body = self.op.adjoint_body(self.sample.types, self.attrs)
        known = {**self.arrays, **self.outputs(), **self.cotangents}
        return dict(zip(body.of, evaluate(body.outputs, known, self.context), strict=True))

    def _pulled(self, gradients: Mapping[str, Gradient]) -> Arrays:
        cotangents = list(self.cotangents.values())
        known = {name: (self.arrays[name], type_) for name, type_ in self.sample.operands.items()}
        for place, (array, out) in enumerate(zip(cotangents, self.body.outputs, strict=True)):
            known["d" if len(cotangents) == 1 else f"d_{place + 1}"] = array, TensorType(out.shape)
        floats = [name for name, type_ in self.sample.operands.items() if type_.is_float]
        return {name: self._term(gradients[name], known)[0] for name in floats if name in gradients}

    def _term(
        self, term: Gradient, known: Mapping[str, tuple[Array, TensorType]]
    ) -> tuple[Array, TensorType]:
        if not isinstance(term, Term):
            return known[term]
        op = ops.find(term.op)
        assert op, term.op
        args = [self._term(arg, known) for arg in term.args]
        body = op.body([type_ for _, type_ in args], term.attrs)
        operands = {
            str(expr.name): array for expr, (array, _) in zip(body.operands, args, strict=True)
        }
        (value,) = evaluate(body.outputs, operands, self.context)
        return value, TensorType(body.outputs[0].shape)

    def distance(self, a: Mapping[str, Array], b: Mapping[str, Array]) -> float:
        """The disagreement of two gradients of this trial."""
        size = sum(float(np.sum(np.square(array))) for array in self.cotangents.values())
        return disagreement(a, b, 1e-4 * size**0.5)

    def differences(self, step: float) -> Arrays:
        """The gradient of <cotangents, outputs> by central differences of fourth order.

        A value at which gradients end stays what it is at the middle.
        """
        stopped = Stopped()
        self.outputs(context=replace(self.context, stopped=stopped))
        return {
            name: self._difference(name, step, stopped)
            for name, type_ in self.sample.operands.items()
            if type_.is_float
        }

    def _difference(self, name: str, step: float, stopped: Stopped) -> Array:
        moved = {key: array.copy() for key, array in self.arrays.items()}
        found = np.zeros_like(moved[name])
        for index in np.ndindex(found.shape):
            at = moved[name][index]
            total = 0.0
            for shift, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
                moved[name][index] = at + shift * step
                held = replace(self.context, stopped=stopped.replayed())
                total += weight * self._projected(moved, held)
            moved[name][index] = at
            found[index] = total / (12 * step)
        return found

    def _projected(self, arrays: Mapping[str, Array], context: Context) -> float:
        values = self.outputs(arrays, context)
        # A masked score is -inf whatever its operand is: it adds nothing to a difference.
        return sum(
            float(np.sum(array * np.where(np.isfinite(values[name[1:]]), values[name[1:]], 0.0)))
            for name, array in self.cotangents.items()
        )


def _draw(
    random: np.random.Generator, context: Context, type_: TensorType, scale: float, unit: bool
) -> Array:
    shape = context.shape(type_.shape)
    if type_.range is not None:
        return random.integers(0, context.size(type_.range), size=shape)
    if unit:
        return np.asarray(random.uniform(0.1, 0.9, size=shape), context.dtype)
    drawn = random.normal(size=shape)
    away = drawn + np.copysign(0.05, drawn)  # from the kinks at 0
    return np.asarray(scale * away, context.dtype)


def disagreement(a: Mapping[str, Array], b: Mapping[str, Array], floor: float) -> float:
    """The largest relative distance of two gradients of one operand; infinite if one is missing.

    Below `floor` a gradient counts as zero: where a sigmoid is saturated, only rounding is left.
    """
    if set(a) != set(b):
        return float("inf")
    whole = _norm([*a.values(), *b.values()])
    return max([_distance(a[name], b[name], 1e-2 * whole + floor) for name in a], default=0.0)


def _distance(a: Array, b: Array, floor: float) -> float:
    if a.shape != b.shape or not np.all(np.isfinite(a)):
        return float("inf")
    return _norm([a - b]) / (max(_norm([a]), _norm([b])) + floor)


def _norm(arrays: Sequence[Array]) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(array))) for array in arrays)))
