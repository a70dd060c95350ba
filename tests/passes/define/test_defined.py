"""Operators that a file defines: their values, shapes and gradients."""

from dataclasses import replace

import numpy as np
import pytest
from ops.sample import SIZES, B, D, S, Sample, V, floats, ints
from ops.trial import Trial

from xg import ops
from xg.diagnostics.diagnostic import Source
from xg.ir.body import topological
from xg.ir.dim import number
from xg.ir.op import Op
from xg.ir.use import Misuse, Number, Tensor
from xg.passes.resolve.define import define
from xg.syntax.parse import parse

X = {"x": floats(B, S, D)}
ROW = {"gamma": floats(D), "beta": floats(D)}
GATE = {"g": floats(B, S, D), "u": floats(B, S, D)}
TOLERANCE = 1e-12


def op(text: str) -> Op:
    (definition,) = parse(Source("ops.xg", text + "\n")).ops
    return define(definition)


def trial(text: str, sample: Sample, scale: float = 1.0) -> Trial:
    return Trial.make(op(text), sample, scale=scale)


SHIPPED = {
    "ReLU": ("op ReLU(x) = max(x, 0)", Sample(X)),
    "GELU": ("op GELU(x) = x * (1 + erf(x/sqrt(2))) / 2", Sample(X, {"form": "exact"})),
    "SiLU": ("op SiLU(x) = x * sigmoid(x)", Sample(X)),
    "tanh": ("op tanh(x) = (exp(x) - exp(-x)) / (exp(x) + exp(-x))", Sample(X)),
    "SwiGLU": ("op SwiGLU(g, u) = g * sigmoid(g) * u", Sample(GATE)),
    "S": (
        "op S(z [.., t]) = e / sum[t](e) where e = exp(z - max[t](z))",
        Sample({"z": floats(B, S, D)}),
    ),
    "LN": (
        "op LN(x [.., D]; γ [D], β [D], eps = 1e-5) = (x - μ) / sqrt(v + eps) * γ + β\n"
        "    where μ = mean[D](x),\n"
        "          v = mean[D]((x - μ)^2)",
        Sample({**X, **ROW}),
    ),
}


@pytest.mark.parametrize("glyph", SHIPPED)
def test_a_defined_operator_equals_the_shipped_one(glyph: str) -> None:
    text, sample = SHIPPED[glyph]
    shipped = Trial.make(ops.table()[glyph], sample)
    defined = trial(text, sample)
    (mine,), theirs = defined.outputs().values(), next(iter(shipped.outputs().values()))
    assert np.allclose(mine, theirs, rtol=TOLERANCE, atol=TOLERANCE)
    for one, other in zip(defined.gradients().values(), shipped.gradients().values(), strict=True):
        assert np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)


FORMULAS: dict[str, tuple[Sample, str]] = {
    "op F(x; a = 0.01) = max(x, a*x)": (Sample(X), "np.maximum(x, 0.01 * x)"),
    "op F(x; a) = a - x": (Sample(X, {"a": 3.0}), "3 - x"),
    "op F(x) = x * min(max(x + 3, 0), 6) / 6": (Sample(X), "x * np.clip(x + 3, 0, 6) / 6"),
    "op F(x) = select(x >= 0.5, x, -x^2)": (Sample(X), "np.where(x >= 0.5, x, -(x**2))"),
    "op F(x) = max(x, 0.5*x, -2*x)": (Sample(X), "np.maximum(np.maximum(x, 0.5 * x), -2 * x)"),
    "op F(x) = 2^3 * x - x/4 + sin(x) + cos(2*x)": (
        Sample(X),
        "8 * x - x / 4 + np.sin(x) + np.cos(2 * x)",
    ),
    "op F(x) = log(x^2 + 1) + x^(1/3 + 2/3)": (Sample(X), "np.log(x**2 + 1) + x"),
    "op F(x [.., D]) = sum[D](x)": (Sample(X), "x.sum(axis=-1)"),
    "op F(x [.., S, D]) = mean[S](x)": (Sample(X), "x.mean(axis=-2)"),
    "op F(x [.., D]) = sum[..](x)": (Sample(X), "x.sum(axis=(0, 1))"),
    "op F(x [.., D]) = sum[.., D](x^2)": (Sample(X), "np.square(x).sum()"),
    "op F(x [.., S, D]) = x - mean[S](x)": (Sample(X), "x - x.mean(axis=-2, keepdims=True)"),
    "op F(x [.., D]) = sum[D](x) / D": (Sample(X), "x.sum(axis=-1) / 7"),
    "op F(x [.., D]) = max[D](x) - min[D](x)": (Sample(X), "x.max(axis=-1) - x.min(axis=-1)"),
    "op F(x [.., D]) = y * y where s = sum[D](exp(x)), y = exp(x) / s": (
        Sample(X),
        "(np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)) ** 2",
    ),
    "op F(x [B, S, D]; v [S]) = x * v": (Sample({**X, "v": floats(S)}), "x * v[:, None]"),
    "op F(x [S, D], y [D, S]) = x * y": (Sample({"x": floats(S, D), "y": floats(D, S)}), "x * y.T"),
    "op F(a [S], b [D]) = a * b": (Sample({"a": floats(S), "b": floats(D)}), "np.outer(a, b)"),
    "op F(a [S], b [S, D]) = sum[S](a * b)": (Sample({"a": floats(S), "b": floats(S, D)}), "a @ b"),
    "op F(x [.., D], s) = x * s": (Sample({**X, "s": floats(B, S)}), "x * s[..., None]"),
    "op F(x [.., D], s [..]) = s + sum[D](x)": (
        Sample({**X, "s": floats(B, S)}),
        "s + x.sum(axis=-1)",
    ),
    "op F(x; c []) = x * c": (Sample({**X, "c": floats()}), "x * c"),
    "op F(x) = y where y = x": (Sample(X), "x"),
    "op F(x [.., S]; range) = x * range + range[S]": (
        Sample(X, {"range": 3}),
        "x * 3 + np.arange(7)",
    ),
    "op F(x [.., S, D]) = x * range[S] - range[D]": (
        Sample(X),
        "x * np.arange(3)[:, None] - np.arange(7)",
    ),
    "op F(x [.., S, D]) = x * (i/2) + (i + 1) * 0.5 where i = range[S](D - S)": (
        Sample(X),
        "x * np.arange(4, 7)[:, None] / 2 + np.arange(5, 8)[:, None] * 0.5",
    ),
    "op F(x [S, D]; w) = select(and(i >= j, w > i - j), x, 0) where i = range[S], j = range[D]": (
        Sample({"x": floats(S, D)}, {"w": 2}),
        "x * np.tri(3, 7) * (1 - np.tri(3, 7, -2))",
    ),
    "op F(x [.., S]) = select(or(equal(range[S], 1), 3 > x), x, 0.5)": (
        Sample(X),
        "np.where((np.arange(7) == 1) | (x < 3), x, 0.5)",
    ),
    "op F(x [.., S]) = x * abs(range[S] - 2) + exp(range[S]) + range[S]^2 + sqrt(range[S])": (
        Sample(X),
        "x * abs(np.arange(7) - 2) + np.exp(np.arange(7)) + np.arange(7) ** 2"
        " + np.sqrt(np.arange(7))",
    ),
    "op F(x [.., S]) = x + mean[S](float(range[S])) + max(range[S], 2) + sigmoid(range[S])": (
        Sample(X),
        "x + 3 + np.maximum(np.arange(7), 2) + 1 / (1 + np.exp(-np.arange(7)))",
    ),
    "op F(x [B, S], i [S] in V) = x * float(i) - i": (
        Sample({"x": floats(B, S), "i": ints(S, below=V)}),
        "x * i - i",
    ),
    "op F(x) = x * sign(x) + floor(x) * x + round(x) * round(2.5) + floor(-0.5)": (
        Sample(X), "np.abs(x) + np.floor(x) * x + np.round(x) * 2 - 1",
    ),
    "op F(x) = softplus(x) + log1p(x^2)": (Sample(X), "np.logaddexp(x, 0) + np.log(1 + x**2)"),
    "op F(x [.., S, D]) = logsumexp[S, D](x)": (
        Sample(X), "np.log(np.exp(x).sum(axis=(-1, -2)))",
    ),
    "op F(x [.., S, D]) = cumsum[S](x) * sum[D](cumsum[D](x))": (
        Sample(X), "x.cumsum(-2) * x.cumsum(-1).sum(axis=-1, keepdims=True)",
    ),
    "op F(x [.., S, D]) = x * argmax[S](x)": (
        Sample(X), "x * x.argmax(axis=-2)[:, None]",
    ),
    "op F(x [.., S]; a) = x * 0.9^range[S] + a^(1 - range[S])": (
        Sample(X, {"a": 2}), "x * 0.9 ** np.arange(7) + 2.0 ** (1 - np.arange(7))",
    ),
    "op F(t [..]; K) = cos(t * 100^(-range[K]/K))": (
        Sample({"t": floats(B, S)}, {"K": number(4)}),
        "np.cos(t[..., None] * 100 ** (-np.arange(4) / 4))",
    ),
    "op F(t [B, S]; K, D) = t * range[K] - sum[K](range[K]) * range[D]": (
        Sample({"t": floats(B, S)}, {"K": number(4), "D": number(2)}),
        "t[..., None, None] * np.arange(4)[:, None] - 6 * np.arange(2)",
    ),
    "op F(x, y) = x + y": (Sample({**X, "y": floats(B, S, D)}), "x + y"),
}  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_an_expression_means_its_formula(text: str) -> None:
    sample, formula = FORMULAS[text]
    defined = trial(text, sample)
    expected = np.asarray(eval(formula, {"np": np}, defined.arrays))
    (found,) = defined.outputs().values()
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_its_gradient_agrees_with_differences(text: str, scale: float) -> None:
    sample, _ = FORMULAS[text]
    defined = trial(text, sample, scale)
    assert defined.distance(defined.gradients(), defined.differences(1e-3 * scale)) < 1e-6


def test_equal_maxima_share_the_gradient() -> None:
    defined = trial("op F(x [.., D]) = max[D](x)", Sample({"x": floats(D)}))
    equal = replace(defined, arrays={"x": np.ones(SIZES["D"])})
    (gradient,) = equal.gradients().values()
    assert np.allclose(gradient, equal.cotangents["dy"] / SIZES["D"])


def test_a_step_has_no_gradient() -> None:
    step = trial("op Step(x) = select(x > 0, 1, 0)", Sample(X))
    assert step.op.adjoint_body(step.sample.types, step.attrs).outputs == ()
    assert not np.any(step.gradients()["x"])


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("op F(x) = x + 1", True),
        ("op F(x [.., D]; g [D]) = x * g", True),
        ("op F(x [.., D]) = sum[D](x)", False),
        ("op F(a [S], b [D]) = a * b", False),
    ],
)
def test_whether_shapes_are_kept_is_known(text: str, keeps: bool) -> None:
    assert op(text).keeps_shape is keeps


def test_own_arguments_stay_in_order() -> None:
    defined = op("op F(x [.., D]; eps = 1e-6, g [D], a) = a * x * g + eps")
    assert defined.own == (Number("eps", 1e-6), Tensor("g"), Number("a"))
    assert defined.formula == "op F(x [.., D]; eps = 1e-6, g [D], a) = a * x * g + eps"


def test_parts_keep_the_authors_names() -> None:
    text, sample = SHIPPED["LN"]
    defined = trial(text, sample)
    body = defined.op.body(sample.types, defined.attrs)
    names = {expr.name for expr in topological(body.outputs)}
    assert {"mu", "v", "x", "gamma", "beta"} <= names


@pytest.mark.parametrize(
    ("text", "sample", "message"),
    [
        ("op F(x [.., D]; g [D]) = x * g", Sample({**X, "g": floats(S)}), "D of F would be [D]"),
        ("op F(x, y) = x + y", Sample({**X, "y": floats(S, D)}), ".. of F would be"),
        ("op F(x [S, D]) = x", Sample(X), "F takes x [S, D]"),
        ("op F(x [.., S, D]) = x", Sample({"x": floats(D)}), "F takes x [.., S, D]"),
        ("op F(x; a) = x * (1/a)", Sample(X, {"a": 0.0}), "1/a is not a finite number"),
        ("op F(x [S]; a) = x * range[S](a)", Sample({"x": floats(S)}, {"a": 0.5}), "a start made"),
        ("op F(m [S] in 2) = float(m)", Sample({"m": ints(S, below=V)}), "F takes integers in 2"),
        (
            "op F(d [S] in N, e [S] in N) = equal(d, e)",
            Sample({"d": ints(S, below=V), "e": ints(S, below=D)}),
            "F takes integers in V as e",
        ),
    ],
)  # fmt: skip
def test_a_use_that_does_not_fit_is_refused(text: str, sample: Sample, message: str) -> None:
    with pytest.raises(Misuse) as caught:
        trial(text, sample)
    assert message in caught.value.message


def test_a_comparison_is_a_mask() -> None:
    defined = trial("op F(x [.., S], y [.., S]) = x >= y", Sample({"x": floats(S), "y": floats(S)}))
    (mask,) = defined.outputs().values()
    assert mask.dtype.kind == "i"
    assert np.array_equal(mask, defined.arrays["x"] >= defined.arrays["y"])
    assert defined.attrs["range"] == number(2)
    assert defined.op.adjoint_body(defined.sample.types, defined.attrs).outputs == ()
