"""The table of meanings: whole, and on rational functions that of floats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ops.samples import SAMPLES
from ops.trial import Trial

from xg import ops
from xg.ir.body import Body, topological
from xg.ir.functions import exp
from xg.ir.op import Op
from xg.ir.prim import COMPARE, const, operand, reduce_max, reduce_sum
from xg.verify.reference.evaluate import MEANING, Context, evaluate
from xg.verify.reference.residues import MINUS_INFINITY, MIXED, PRIMES, Field, Undefined, modulo

ROUNDED = 1e-12  # far below any fraction of the small whole numbers that are tried
FIELD = Field(PRIMES[0])
EXACT = modulo(PRIMES[0])


def test_every_primitive_has_a_meaning() -> None:
    assert EXACT.meanings.keys() == MEANING.keys()


def is_rational(body: Body) -> bool:
    """Whether floats compute a fraction that can be known from them; noise is rounded."""
    prims = {expr.prim for expr in topological(body.outputs)}
    ordered = prims & {*COMPARE, "maximum", "minimum", "max"}
    return not prims & {*MIXED, "exp", "draw"} and not (ordered and prims & {"div", "mean"})


def rational_operators() -> list[Op]:
    found: list[Op] = []
    for glyph, samples in SAMPLES.items():
        trial = Trial.make(ops.table()[glyph], samples[0])
        body = trial.op.body(samples[0].types, trial.attrs)
        if is_rational(body):
            found.append(trial.op)
    return found


@pytest.mark.parametrize("op", rational_operators(), ids=lambda op: op.glyph)
def test_a_rational_operator_computes_what_floats_compute(op: Op) -> None:
    for sample in SAMPLES[op.glyph]:
        made = Trial.make(op, sample)
        whole = {name: np.rint(3 * array) for name, array in made.arrays.items()}
        floats = replace(made, arrays={**whole, **_integers(made)})
        exact = replace(
            made,
            arrays={name: array.astype(np.int64) for name, array in floats.arrays.items()},
            context=replace(made.context, arithmetic=EXACT),
        )
        for name, want in floats.outputs().items():
            have = exact.outputs()[name]
            assert np.array_equal(have, _residues(want)), (op.glyph, name)


def _integers(trial: Trial) -> dict[str, np.ndarray]:
    types = trial.sample.operands
    return {name: array for name, array in trial.arrays.items() if not types[name].is_float}


def _residues(x: np.ndarray) -> np.ndarray:
    if not np.issubdtype(x.dtype, np.floating):
        return x
    known = np.where(np.abs(x) < ROUNDED, 0.0, x)  # a sum of fractions that is 0, but for rounding
    return np.vectorize(FIELD.number, otypes=[np.int64])(known)


def test_enough_operators_are_rational() -> None:
    assert {"•", "⊕", "SM", "ReLU", "MSE", "Emb", "DO", "mean"} <= {
        op.glyph for op in rational_operators()
    }


# ---- -inf ---------------------------------------------------------------------------------------

X = operand("x", ())
ROW = np.array([5, MINUS_INFINITY, -7])


def value(expr: object, x: np.ndarray) -> np.ndarray:
    (found,) = evaluate([expr], {"x": x}, Context({}, arithmetic=EXACT))  # type: ignore[list-item]
    return found


def test_minus_infinity_survives_until_its_exponential() -> None:
    hidden = np.array([False, True, False])
    for masked in (X + 3.0, X - 3.0, X * 3.0, X / 3.0, 0.125 * X):
        assert np.array_equal(value(masked, ROW) == MINUS_INFINITY, hidden)
        assert np.array_equal(value(exp(masked), ROW) == 0, hidden)
    assert value(X + X, ROW)[1] == MINUS_INFINITY
    row = operand("x", (SAMPLES["•"][0].operands["b"].shape[0],))
    assert value(reduce_max(row), ROW) == 5
    assert value(reduce_sum(row), ROW) == MINUS_INFINITY
    assert value(reduce_sum(row), np.full(1000, MINUS_INFINITY)) == MINUS_INFINITY
    assert value(reduce_max(row), np.full(4, MINUS_INFINITY)) == MINUS_INFINITY
    assert np.array_equal(value(const(float("-inf")) < X, ROW), ~hidden)


@pytest.mark.parametrize("wrong", [-X, 1.0 - X, X - X, X * 0.0, X**2, 1.0 / X])
def test_minus_infinity_is_refused_where_it_has_no_meaning(wrong: object) -> None:
    with pytest.raises(Undefined):
        value(wrong, ROW)
