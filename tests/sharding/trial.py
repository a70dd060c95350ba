"""One operator on several ranks, its operands in given states, against the operator on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from ops.sample import Sample, settle
from sharding.rank_bodies import join, run, split
from tier import THOROUGH

from xg.ir.body import Body
from xg.ir.op import Op
from xg.ir.placement import CONSTANT, INVARIANT, PARTIAL, REPLICATED, AxisState, dual, shard
from xg.ir.prim import Expr, operand
from xg.ir.primitive_gradients import pullback
from xg.ir.tensor import TensorType
from xg.sharding.local import local_shape, localize
from xg.sharding.primitive_rules import Typing, type_body
from xg.verify.reference.evaluate import Context, evaluate

Array = NDArray[Any]
Arrays = dict[str, Array]
States = tuple[AxisState, ...]
MANY: Final = 60  # choices of states

SIZES: Mapping[str, int] = {
    "B": 6, "S": 12, "S_k": 18, "D": 24, "N_H": 6, "D_h": 12, "V": 30, "S_max": 36, "T": 6,
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """A use of an operator, arrays for it, and a number of ranks."""

    op: Op
    sample: Sample
    ranks: int
    body: Body
    arrays: Arrays
    context: Context

    @classmethod
    def make(cls, op: Op, sample: Sample, ranks: int) -> Trial:
        attrs = settle(op, sample)
        body = op.body(sample.types, attrs)
        random = np.random.default_rng(ranks)
        arrays = {name: _draw(random, type_) for name, type_ in sample.operands.items()}
        arrays |= {name: np.abs(np.tanh(arrays[name])) for name in sample.unit}
        context = Context({**SIZES, "N": ranks}, key=3)
        return cls(op, sample, ranks, body, arrays, context)

    def choices(self) -> Iterator[States]:
        """Every state of every operand that its sizes allow."""
        return product(*(list(self._states(type_)) for type_ in self.sample.operands.values()))

    def tried(self) -> list[States]:
        """All of these, or some where there are many and tests are not thorough."""
        every = [*self.choices()]
        return every if THOROUGH or len(every) <= MANY else Random(0).sample(every, MANY)

    def constants_and_parts(self) -> Iterator[States]:
        """Every choice of cuts beside numbers that are whole and have no gradient."""
        types = self.sample.operands.values()
        every = product(*([CONSTANT, *self._cuts(type_)] for type_ in types))
        return (states for states in every if self._has_constants(states))

    def _has_constants(self, states: States) -> bool:
        return CONSTANT in [states[place] for place in self.floats(self.body.operands)]

    def _states(self, type_: TensorType) -> Iterator[AxisState]:
        yield from (INVARIANT, REPLICATED, PARTIAL) if type_.is_float else (CONSTANT,)
        yield from self._cuts(type_)

    def _cuts(self, type_: TensorType) -> Iterator[AxisState]:
        for axis in range(-len(type_.shape), 0):
            if self.context.size(type_.shape[axis]) % self.ranks == 0:
                yield shard(axis)

    @cached_property
    def in_evaluation(self) -> Trial:
        """The same without a seed: nothing is drawn."""
        return replace(self, context=replace(self.context, key=None))

    @cached_property
    def forms(self) -> tuple[Trial, ...]:
        """In training, and in evaluation where anything is computed otherwise there."""
        other = self.in_evaluation
        pairs = zip(self.results, other.results, strict=True)
        same = all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)
        return (self,) if same else (self, other)

    # ---- on one rank ----------------------------------------------------------------------------

    @cached_property
    def results(self) -> list[Array]:
        """The outputs of the whole."""
        return evaluate(self.body.outputs, self.arrays, self.context)

    @cached_property
    def derivatives(self) -> tuple[Arrays, list[Array | None]]:
        """Random cotangents of the float outputs, and the derivatives of the float operands."""
        outputs, random = self.body.outputs, np.random.default_rng(5)
        places, operands = self.floats(outputs), self.body.operands
        seeds = [operand(f"d{p}", outputs[p].shape) for p in places]
        arrays: Arrays = {
            f"d{p}": random.standard_normal(self.context.shape(outputs[p].shape)) for p in places
        }
        wanted = [operands[p] for p in self.floats(operands)]
        gradients = pullback([outputs[p] for p in places], seeds, wanted)
        return arrays, self._values(gradients, self.arrays | arrays)

    @staticmethod
    def floats(exprs: Sequence[Expr]) -> list[int]:
        """The places of those that are floats."""
        return [place for place, expr in enumerate(exprs) if expr.kind == "float"]

    # ---- forward --------------------------------------------------------------------------------

    def typed(self, states: States, *, collects: bool = False) -> Typing:
        return type_body(self.body, states, "N", collects=collects)

    def error(self, states: States, typing: Typing) -> float:
        """How far outputs are from those on one rank, and gradients, if all floats have one."""
        outputs = [typing.of(out) for out in self.body.outputs]
        local = localize(self.body, typing, outputs, "N")
        parts = self.parts(states)
        found = run(local.outputs, parts, self.context)
        worst = 0.0
        for place, (state, want) in enumerate(zip(outputs, self.results, strict=True)):
            have = join([rank[place] for rank in found], state)
            worst = max(worst, distance(have, want))
        if typing.collected or self._has_constants(states):
            return worst
        return max(worst, self._gradient_error(states, outputs, local, parts))

    def parts(self, states: States) -> list[Arrays]:
        random = np.random.default_rng(1)
        cut = {
            name: split(array, state, self.ranks, random)
            for (name, array), state in zip(self.arrays.items(), states, strict=True)
        }
        return [{name: parts[rank] for name, parts in cut.items()} for rank in range(self.ranks)]

    # ---- backward -------------------------------------------------------------------------------

    def _gradient_error(
        self, states: States, outputs: Sequence[AxisState], local: Body, parts: list[Arrays]
    ) -> float:
        """Every rank runs the derivative of its own body: nothing is communicated."""
        places = [
            place
            for place, out in enumerate(self.body.outputs)
            if out.kind == "float" and dual(outputs[place])
        ]
        floats = [p for p, expr in enumerate(self.body.operands) if expr.kind == "float"]
        if not places or not floats:
            return 0.0
        random = np.random.default_rng(2)
        whole, cotangents = self._seeds(self.body, places, [CONSTANT] * len(outputs))
        arrays = {
            f"d{p}": random.standard_normal(self.context.shape(self.body.outputs[p].shape))
            for p in places
        }
        wanted = [self.body.operands[p] for p in floats]
        gradients = pullback(whole, cotangents, wanted)
        expected = self._values(gradients, self.arrays | arrays)

        duals = {p: dual_of(outputs[p]) for p in places}
        local_whole, local_cotangents = self._seeds(self.body, places, outputs, local)
        local_wanted = [local.operands[p] for p in floats]
        local_gradients = pullback(local_whole, local_cotangents, local_wanted)
        cut = {f"d{p}": split(arrays[f"d{p}"], duals[p], self.ranks, random) for p in places}
        given = [
            {**parts[rank], **{name: value[rank] for name, value in cut.items()}}
            for rank in range(self.ranks)
        ]
        present = [g for g in local_gradients if g is not None]
        found = run(present, given, self.context)
        worst, place = 0.0, 0
        for p, gradient, want in zip(floats, local_gradients, expected, strict=True):
            if gradient is None:
                assert want is None
                continue
            state = dual_of(states[p])
            have = join([rank[place] for rank in found], state)
            place += 1
            worst = max(worst, distance(have, want))
        return worst

    def _seeds(
        self, body: Body, places: list[int], states: Sequence[AxisState], local: Body | None = None
    ) -> tuple[list[Expr], list[Expr]]:
        outputs = (local or body).outputs
        shapes = [local_shape(body.outputs[p].shape, states[p], "N") for p in places]
        seeds = [operand(f"d{p}", shape) for p, shape in zip(places, shapes, strict=True)]
        return [outputs[p] for p in places], seeds

    def _values(self, exprs: Sequence[Expr | None], arrays: Arrays) -> list[Array | None]:
        present = [expr for expr in exprs if expr is not None]
        values = iter(evaluate(present, arrays, self.context))
        return [None if expr is None else next(values) for expr in exprs]


def dual_of(state: AxisState) -> AxisState:
    found = dual(state)
    assert found is not None
    return found


def distance(have: Array, want: Array | None) -> float:
    assert want is not None
    if have.shape != want.shape:
        return float("inf")
    if want.dtype == np.bool_:
        return float((have != want).any())
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(have)):
        return float("inf")
    scale = float(np.abs(want[finite]).max(initial=0.0)) + 1e-3
    return float(np.abs(have[finite] - want[finite]).max(initial=0.0)) / scale


def _draw(random: np.random.Generator, type_: TensorType) -> Array:
    shape = tuple(dim.evaluate(SIZES) for dim in type_.shape)
    if type_.range is not None:
        return random.integers(0, type_.range.evaluate(SIZES), shape)
    drawn = random.standard_normal(shape)
    return np.asarray(drawn + np.copysign(0.05, drawn))
