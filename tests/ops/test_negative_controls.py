"""Gradients with the errors that people commonly make: the tests must find every one."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from ops.samples import SAMPLES
from ops.trial import Trial

from xg import ops
from xg.ir.dim import Scalar, as_scalar
from xg.ir.functions import exp
from xg.ir.op import Gradient, Term
from xg.ir.prim import Expr, dropout_apply, reduce_mean, reduce_sum, where
from xg.ir.use import Attrs

# Moves between ranks are the identity on the whole: tests/sharding plants errors in them.
PULLED = [op.glyph for op in ops.table().values() if op.pullback and op.family != "collective"]
Adjoint = Callable[..., tuple[Expr | None, ...]]


def softmax_without_the_inner_product(dp: Expr, p: Expr) -> tuple[Expr]:
    return (dp * p,)


def softmax_with_a_mean(dp: Expr, p: Expr) -> tuple[Expr]:
    return ((dp - reduce_mean(dp * p)) * p,)


def layer_norm_with_a_constant_mean(
    dy: Expr, x: Expr, gamma: Expr, mean: Expr, rstd: Expr
) -> tuple[Expr | None, ...]:
    x_hat, dx_hat = (x - mean) * rstd, dy * gamma
    dx = rstd * (dx_hat - x_hat * reduce_mean(dx_hat * x_hat))
    return dx, _rows(dy * x_hat), _rows(dy)


def layer_norm_without_gamma(dy: Expr, x: Expr, mean: Expr, rstd: Expr) -> tuple[Expr | None, ...]:
    x_hat = (x - mean) * rstd
    dx = rstd * (dy - reduce_mean(dy) - x_hat * reduce_mean(dy * x_hat))
    return dx, _rows(dy * x_hat), _rows(dy)


def layer_norm_without_beta(
    dy: Expr, x: Expr, gamma: Expr, mean: Expr, rstd: Expr
) -> tuple[Expr | None, ...]:
    x_hat, dx_hat = (x - mean) * rstd, dy * gamma
    dx = rstd * (dx_hat - reduce_mean(dx_hat) - x_hat * reduce_mean(dx_hat * x_hat))
    return dx, _rows(dy * x_hat), None


def _rows(x: Expr) -> Expr:
    return reduce_sum(x, tuple(range(-x.rank, -1)), keep=False)


def gelu_of_the_other_form(dy: Expr, x: Expr) -> tuple[Expr]:
    s = 1.0 / (1.0 + exp(-1.702 * x))
    return (dy * (s + 1.702 * x * s * (1.0 - s)),)


def relu_of_the_output_shifted(dy: Expr, x: Expr) -> tuple[Expr]:
    return (where(x > 0.1, dy, 0.0),)


def dropout_without_its_scale(dy: Expr, keep: Expr, p: Scalar) -> tuple[Expr]:
    return (dropout_apply(dy, keep, p, scaled=False),)


def dropout_without_its_mask(dy: Expr, p: Scalar) -> tuple[Expr]:
    return (dy * (1.0 / (1.0 - p)),)


def scale_mask_without_its_scale(dz: Expr) -> tuple[Expr]:
    return (dz,)


def turned_on(dy: Expr, x: Expr, base: Scalar, layout: str) -> tuple[Expr]:
    rope = ops.table()["RoPE"]
    return (rope.forward(dy, None, base=base, layout=layout),)


SABOTAGED: list[tuple[str, int, Adjoint]] = [
    ("S", 0, softmax_without_the_inner_product),
    ("S", 0, softmax_with_a_mean),
    ("LN", 0, layer_norm_with_a_constant_mean),
    ("LN", 0, layer_norm_without_gamma),
    ("LN", 0, layer_norm_without_beta),
    ("GELU", 0, gelu_of_the_other_form),
    ("ReLU", 0, relu_of_the_output_shifted),
    ("DO", 0, dropout_without_its_scale),
    ("DO", 0, dropout_without_its_mask),
    ("SM", 1, scale_mask_without_its_scale),
    ("RoPE", 0, turned_on),
]


@pytest.mark.parametrize(
    ("glyph", "place", "adjoint"), SABOTAGED, ids=[case[2].__name__ for case in SABOTAGED]
)
def test_a_sabotaged_adjoint_is_found(glyph: str, place: int, adjoint: Adjoint) -> None:
    honest = Trial.make(ops.table()[glyph], SAMPLES[glyph][place])
    wrong = replace(honest, op=replace(honest.op, adjoint=adjoint))
    differences = honest.differences(1e-3)
    assert honest.distance(honest.gradients(), differences) < 1e-6
    assert honest.distance(wrong.gradients(), differences) > 1e-3


@pytest.mark.parametrize("glyph", PULLED)
def test_a_sabotaged_pullback_is_found(glyph: str) -> None:
    honest = Trial.make(ops.table()[glyph], SAMPLES[glyph][0])
    pullback = honest.op.pullback
    assert pullback

    def off(attrs: Attrs) -> dict[str, Gradient]:
        factor = {"c": as_scalar(1.00001)}
        terms = pullback(attrs) or {"x": "d"}  # where a gradient ends, one that goes on
        return {name: Term("scale", (term,), factor) for name, term in terms.items()}

    wrong = replace(honest, op=replace(honest.op, pullback=off))
    assert honest.distance(wrong.gradients(), honest.differences(1e-3)) > 1e-6
