"""One operator on several ranks, in residues: equal to the operator on one rank, or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ops.samples import SAMPLES
from sharding.rank_bodies import run
from sharding.trial import States, Trial, dual_of

from xg import ops
from xg.ir.body import Body
from xg.ir.placement import AxisState, dual
from xg.ir.prim import Expr, operand
from xg.ir.primitive_gradients import pullback
from xg.sharding.local import localize
from xg.sharding.primitive_rules import Typing
from xg.verify.reference.evaluate import evaluate
from xg.verify.reference.residues import PRIMES, Field, modulo

Array = NDArray[Any]
Arrays = dict[str, Array]
Change = Callable[[Body], Body]

FIELD = Field(PRIMES[0])
ARITHMETIC = modulo(PRIMES[0])


def trials(glyph: str, ranks: int) -> list[Trial]:
    """Every sample of an operator, with residues where it takes floats."""
    return [_in_residues(Trial.make(ops.table()[glyph], s, ranks)) for s in SAMPLES[glyph]]


def _in_residues(trial: Trial) -> Trial:
    random = np.random.default_rng(7)
    arrays = {
        name: residues(random, array.shape) if trial.sample.operands[name].is_float else array
        for name, array in trial.arrays.items()
    }
    return replace(trial, arrays=arrays, context=replace(trial.context, arithmetic=ARITHMETIC))


def residues(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.integers(-FIELD.half, FIELD.half, shape, endpoint=True)


def split(whole: Array, state: AxisState, ranks: int, random: np.random.Generator) -> list[Array]:
    """Parts of a whole in a state; of a sum, random terms."""
    if state.kind == "S":
        return np.split(whole, ranks, state.axis)
    if state.kind != "P":
        return [whole] * ranks
    terms = [residues(random, whole.shape) for _ in range(ranks - 1)]
    return [*terms, FIELD.wrap(whole - sum(terms, np.zeros_like(whole)))]


def joins(parts: Sequence[Array], state: AxisState, whole: Array) -> bool:
    """Whether parts in a state are parts of this whole."""
    match state.kind:
        case "S":
            return np.array_equal(np.concatenate(parts, state.axis), whole)
        case "P":
            return np.array_equal(reduce(ARITHMETIC.add, parts), whole)
        case "M":
            return np.array_equal(reduce(np.maximum, parts), whole)
        case _:
            return all(np.array_equal(part, whole) for part in parts)


def agrees(trial: Trial, states: States, typing: Typing, change: Change = lambda b: b) -> bool:
    """Whether the ranks' outputs, and where no body sums over ranks their gradients, are right.

    `change` plants an error in what every rank runs.
    """
    outputs = [typing.of(out) for out in trial.body.outputs]
    local = change(localize(trial.body, typing, outputs, "N"))
    parts = _cut(trial.arrays, states, trial.ranks)
    found = run(local.outputs, parts, trial.context)
    expected = evaluate(trial.body.outputs, trial.arrays, trial.context)
    if not _all_join(found, outputs, expected):
        return False
    return bool(typing.collected) or _derives(trial, states, outputs, local, parts)


def _cut(arrays: Arrays, states: Sequence[AxisState], ranks: int) -> list[Arrays]:
    random = np.random.default_rng(1)
    cut = {n: split(a, s, ranks, random) for (n, a), s in zip(arrays.items(), states, strict=True)}
    return [{name: column[rank] for name, column in cut.items()} for rank in range(ranks)]


def _all_join(
    found: Sequence[Sequence[Array]], states: Sequence[AxisState], wholes: Sequence[Array]
) -> bool:
    columns = zip(*found, strict=True)
    return all(joins(*each) for each in zip(columns, states, wholes, strict=True))


def _derives(
    trial: Trial, states: States, outputs: Sequence[AxisState], local: Body, parts: list[Arrays]
) -> bool:
    """Every rank runs the derivative of its own body; its results have the dual states."""
    body = trial.body
    places = [p for p, o in enumerate(body.outputs) if o.kind == "float" and dual(outputs[p])]
    floats = [p for p, expr in enumerate(body.operands) if expr.kind == "float"]
    whole, seeds = _derived(body, places, floats)
    mine, _ = _derived(local, places, floats)
    reached = [p for p, gradient in zip(floats, whole, strict=True) if gradient is not None]
    if not reached:
        return True
    random = np.random.default_rng(2)
    arrays = {str(s.name): residues(random, trial.context.shape(s.shape)) for s in seeds}
    given = _cut(arrays, [dual_of(outputs[p]) for p in places], trial.ranks)
    present = [gradient for gradient in whole if gradient is not None]
    expected = evaluate(present, trial.arrays | arrays, trial.context)
    found = run(
        [gradient for gradient in mine if gradient is not None],
        [own | more for own, more in zip(parts, given, strict=True)],
        trial.context,
    )
    return _all_join(found, [dual_of(states[p]) for p in reached], expected)


def _derived(
    body: Body, places: Sequence[int], floats: Sequence[int]
) -> tuple[tuple[Expr | None, ...], list[Expr]]:
    seeds = [operand(f"d{p}", body.outputs[p].shape) for p in places]
    outputs = [body.outputs[p] for p in places]
    return pullback(outputs, seeds, [body.operands[p] for p in floats]), seeds
