"""Every primitive: its shape, its value in NumPy and its derivative, one at a time."""

from dataclasses import dataclass

import numpy as np
import pytest
from ops.sample import B, D, S, S_k, Sample, T, V, floats, ints
from ops.trial import Array, Trial

from xg.ir import functions, prim
from xg.ir.collectives import PRIMITIVES
from xg.ir.dim import ONE, ZERO, as_scalar
from xg.ir.op import Op
from xg.ir.prim import Expr
from xg.ir.primitive_gradients import CHOOSING, RULES
from xg.ir.tensor import TensorType
from xg.ir.use import Data
from xg.verify.reference.evaluate import MEANING

X, Y = floats(S, D), floats(S, D)
IDS = ints(B, S, below=V)
NAMES = {
    **vars(functions),
    **vars(prim),
    "B": B,
    "S": S,
    "S_k": S_k,
    "T": T,
    "D": D,
    "V": V,
    "ONE": ONE,
    "ZERO": ZERO,
    "HALF": as_scalar(0.5),
}


@dataclass(frozen=True)
class Case:
    body: str  # in primitives
    formula: str | None  # in NumPy; None where it is random
    operands: dict[str, TensorType]
    unit: tuple[str, ...]

    def forward(self, *operands: Expr) -> Expr:
        return eval(self.body, NAMES, dict(zip(self.operands, operands, strict=True)))


def case(body: str, formula: str | None, *types: TensorType, unit: bool = False) -> Case:
    operands = {"x": types[0]}
    operands.update(("y" if type_.is_float else "ids", type_) for type_ in types[1:])
    return Case(body, formula, operands, ("x",) if unit else ())


CASES = {
    "const": case("x + 2.5", "x + 2.5", X),
    "iota": case("x + as_float(iota(D, S))", "x + np.arange(3, 10)", X),
    "as_float": case("x * as_float(iota(D))", "x * np.arange(7)", X),
    "neg": case("-x", "-x", X),
    "exp": case("exp(x)", "np.exp(x)", X),
    "log": case("log(x)", "np.log(x)", X, unit=True),
    "sqrt": case("sqrt(x)", "np.sqrt(x)", X, unit=True),
    "tanh": case("tanh(x)", "np.tanh(x)", X),
    "erf": case("erf(x)", "np.vectorize(math.erf)(x)", X),
    "stop": case("x * stop(x)", "x * x", X),
    "log1p": case("log1p(x)", "np.log1p(x)", X, unit=True),
    "sign": case("x * sign(x)", "np.abs(x)", X),
    "floor": case("x + floor(x)", "x + np.floor(x)", X),
    "round": case("x * nearest(x)", "x * np.round(x)", X),
    "cumsum": case(
        "cumsum(x, -2) * cumsum(x, -1, backwards=True)",
        "x.cumsum(axis=0) * x[:, ::-1].cumsum(axis=1)[:, ::-1]", X,
    ),
    "sin": case("sin(x)", "np.sin(x)", X),
    "cos": case("cos(x)", "np.cos(x)", X),
    "add": case("x + y", "x + y", X, floats(ONE, D)),
    "sub": case("x - y", "x - y", X, floats(S, ONE)),
    "mul": case("x * y", "x * y", X, floats(D)),
    "div": case("y / x", "y / x", X, floats(B, S, D), unit=True),
    "pow": case("x**3", "x ** 3", X),
    "maximum": case("maximum(x, y)", "np.maximum(x, y)", X, Y),
    "minimum": case("minimum(x, y)", "np.minimum(x, y)", X, floats()),
    "gt": case("where(x > y, x, 0.0)", "np.where(x > y, x, 0)", X, Y),
    "ge": case("where(x >= y, x, y)", "np.where(x >= y, x, y)", X, Y),
    "eq": case("where(equal(x, y), 0.0, x)", "np.where(x == y, 0, x)", X, Y),
    "and": case(
        "where(binary('and', x > y, x > 0.0), x, y)", "np.where((x > y) & (x > 0), x, y)", X, Y
    ),
    "or": case(
        "where(binary('or', x > y, x > 0.0), x, y)", "np.where((x > y) | (x > 0), x, y)", X, Y
    ),
    "where": case("where(x > 0.0, y, x)", "np.where(x > 0, y, x)", X, floats(D)),
    "sum": case("reduce_sum(x, -2)", "x.sum(axis=-2, keepdims=True)", X),
    "mean": case("reduce_mean(x, (-1, -3), keep=False)", "x.mean(axis=(0, 2))", floats(B, S, D)),
    "max": case("reduce_max(x, (-1, -2), keep=False)", "x.max()", X),
    "contract": case(
        "contract(x, y, 'ik,bki->bk')", "np.einsum('ik,bki->bk', x, y)", X, floats(B, D, S)
    ),
    "reshape": case("reshape(x, (D * S,))", "x.reshape(21)", X),
    "transpose": case("transpose(x, (2, 0, 1))", "x.transpose(2, 0, 1)", floats(B, S, D)),
    "broadcast": case("broadcast(x, (B, S, D))", "np.broadcast_to(x, (2, 3, 7))", floats(S, ONE)),
    "concat": case("concat((x, y, x), -2)", "np.concatenate((x, y, x))", X, floats(B, D)),
    "cut": case("cut(x, -1, ONE, S)", "x[:, 1:3]", X),
    "pad": case("pad(x, -2, B, V)", "np.pad(x, ((2, 6), (0, 0)))", X),
    "window": case(
        "window(x, -2, Windows(S_k, S, T, B, ONE, ONE))",
        "np.stack([np.pad(x, ((1, 2), (0, 0)))[j : j + 4] for j in (0, 2, 4)])", floats(S_k, D),
    ),
    "overlap": case(
        "overlap(x, -1, Windows(D, S, T, B, ONE, ONE))",
        "sum(np.pad(x[:, j], ((0, 0), (2 * j, 4 - 2 * j))) for j in range(3))[:, 1:8]",
        floats(B, S, T),
    ),
    "gather": case("gather(x, ids)", "x[ids]", floats(V, D), IDS),
    "scatter_add": case(
        "scatter_add(x, ids, V)", "np.einsum('bsv,bsd->vd', np.eye(11)[ids], x)",
        floats(B, S, D), IDS,
    ),
    "top": case(
        "cut(x, -1, ZERO, S) * as_float(top(x, S))", "x[:, :3] * np.argsort(-x)[:, :3]",
        floats(B, S_k),
    ),
    "earlier": case(
        "earlier(x)", "[[sum(row[:i] == row[i]) for i in range(5)] for row in x]",
        ints(B, S_k, below=B),
    ),
    "pick": case("pick(x, ids)", "(np.eye(11)[ids] * x).sum(axis=-1)", floats(B, S, V), IDS),
    "place": case("place(x, ids, V)", "np.eye(11)[ids] * x[..., None]", floats(B, S), IDS),
    "dropout_keep": case("where(dropout_keep(x, HALF), x, 0.0)", None, X),
    "draw": case("x * draw(broadcast(const(HALF), (S, D)), 'bernoulli', HALF)", None, X),
    "dropout_apply": case("dropout_apply(x, dropout_keep(x, HALF), HALF, scaled=True)", None, X),
}  # fmt: skip


def test_every_primitive_is_here() -> None:
    """But for those across ranks, which tests/sharding runs on several."""
    alone = set(MEANING) - {*PRIMITIVES}
    assert set(CASES) == alone
    assert alone - {*RULES, *CHOOSING} == {"broadcast", "const", "iota"}
    assert CHOOSING.keys().isdisjoint(RULES)


def trial(prim: str) -> Trial:
    given = CASES[prim]
    data = tuple(
        Data(name, "float" if type_.is_float else "int") for name, type_ in given.operands.items()
    )
    op = Op(prim, prim, "nonlinear", given.forward, data, outputs=("out",))
    return Trial.make(op, Sample(given.operands, unit=given.unit))


@pytest.mark.parametrize("prim", CASES)
def test_its_value_is_that_of_numpy(prim: str) -> None:
    import math

    made = trial(prim)
    (value,) = made.outputs().values()
    body = made.op.body(made.sample.types, made.attrs)
    assert value.shape == made.context.shape(body.outputs[0].shape)
    formula = CASES[prim].formula
    if formula is None:
        kept = value != 0
        assert 0 < kept.mean() < 1
        scale = 2.0 if prim == "dropout_apply" else 1.0
        assert np.array_equal(value, np.where(kept, made.arrays["x"] * scale, 0))
    else:
        expected: Array = eval(formula, {"np": np, "math": math, **made.arrays})
        assert np.allclose(value, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("prim", CASES)
def test_its_derivative_agrees_with_differences(prim: str) -> None:
    made = trial(prim)
    assert made.distance(made.gradients(), made.differences(1e-3)) < 1e-6
