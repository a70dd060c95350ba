"""Operators run on each rank's part with no rules at all, and whether the result is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from ops.sample import settle
from sharding.rank_bodies import join, run, split
from sharding.trial import Array, Arrays, States, Trial, distance, dual_of

from xg.ir.body import Body
from xg.ir.dim import DimError
from xg.ir.placement import CONSTANT, INVARIANT, PARTIAL, REPLICATED, AxisState, shard
from xg.ir.prim import Expr, ShapeError, operand
from xg.ir.primitive_gradients import pullback
from xg.ir.tensor import TensorType
from xg.sharding.local import local_shape

CLOSE = 1e-9


def sound_states(trial: Trial, states: States) -> States | None:
    """States of the outputs under which running the operator on parts is right, or None.

    The operator is run unchanged on each rank's part. Right means: outputs join to the whole's,
    and local derivatives to the whole's derivatives, for random numbers.
    """
    local = _retraced(trial, states)
    if local is None:
        return None
    parts = trial.parts(states)
    try:
        found = run(local.outputs, parts, trial.context)
    except (ValueError, IndexError, DimError):
        return None
    expected = trial.results
    columns = [[rank[place] for rank in found] for place in range(len(expected))]
    fitting = [
        [state for state in _states(expr) if _joins(column, state, want)]
        for expr, column, want in zip(trial.body.outputs, columns, expected, strict=True)
    ]
    for chosen in product(*fitting):
        if _derives(trial, states, chosen, local, parts):
            return chosen
    return None


def _retraced(trial: Trial, states: States) -> Body | None:
    types = [
        TensorType(local_shape(type_.shape, state, "N"), type_.range)
        for type_, state in zip(trial.sample.types, states, strict=True)
    ]
    try:
        return trial.op.body(types, settle(trial.op, trial.sample))
    except (ShapeError, DimError, AssertionError, KeyError):
        return None


def _states(expr: Expr) -> Iterator[AxisState]:
    yield from (INVARIANT, REPLICATED, PARTIAL) if expr.kind == "float" else (CONSTANT,)
    yield from (shard(axis) for axis in range(-expr.rank, 0))


def _joins(column: Sequence[Array], state: AxisState, want: Array) -> bool:
    try:
        return distance(join(column, state), want) <= CLOSE
    except ValueError:
        return False


def _derives(
    trial: Trial, states: States, outputs: Sequence[AxisState], local: Body, parts: list[Arrays]
) -> bool:
    """Whether every rank's own derivative gives its part of the whole's."""
    body, random = trial.body, np.random.default_rng(6)
    places, floats = trial.floats(body.outputs), trial.floats(body.operands)
    for p in places:
        if body.outputs[p].shape and local.outputs[p].shape != local_shape(
            body.outputs[p].shape, outputs[p], "N"
        ):
            return False
    mine = [operand(f"d{p}", local.outputs[p].shape) for p in places]
    arrays, whole = trial.derivatives
    own = pullback([local.outputs[p] for p in places], mine, [local.operands[p] for p in floats])
    cut = {
        f"d{p}": split(arrays[f"d{p}"], dual_of(outputs[p]), trial.ranks, random) for p in places
    }
    given = [
        {**parts[rank], **{name: value[rank] for name, value in cut.items()}}
        for rank in range(trial.ranks)
    ]
    for p, want, have in zip(floats, whole, own, strict=True):
        if want is None or have is None:
            continue
        try:
            column = [rank[0] for rank in run([have], given, trial.context)]
            if not distance(join(column, dual_of(states[p])), want) <= CLOSE:
                return False
        except (ValueError, IndexError):
            return False
    return True
