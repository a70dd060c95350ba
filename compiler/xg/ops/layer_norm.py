"""Layer normalization over one axis, the last (seed 001, 4.3.6: node LN, backward dLN)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Scalar
from xg.ir.functions import sqrt
from xg.ir.op import Description, Op
from xg.ir.prim import Expr, reduce_mean, reduce_sum, reshape
from xg.ir.primitive_gradients import unbroadcast
from xg.ir.use import Attrs, Misuse, Number, Tensor, Use


def configure(use: Use) -> Attrs:
    """Refuse γ and β of another length than the axis that is normalized."""
    x, *affine = use.types
    if not x.shape:
        raise Misuse("LN needs an axis to normalize", {0: "this is a scalar"})
    own = use.along("LN normalizes one axis", "name it: LN[C](γ, β); BN[H, W] takes several")
    axis: int = own.get("axis", -1)
    length = x.shape[axis]
    ends = "has" if "axis" in own else "ends in"
    for place, type_ in enumerate(affine, 1):
        if type_.shape != (length,):
            raise Misuse(
                f"LN normalizes {use.sizes.fold(length)} numbers",
                {
                    0: f"{use.spell(x.shape)} {ends} {use.sizes.fold(length)}",
                    place: f"this is {use.spell(type_.shape)}",
                },
                use.channels(affine, "LN"),
            )
    return own


def limits(numbers: Mapping[str, float]) -> Misuse | None:
    """Refuse an ε below 0."""
    eps = numbers["eps"]
    message = f"LN adds eps = {eps:g} to a variance"
    return None if eps >= 0 else Misuse(message, help=("eps >= 0",))


def forward(
    x: Expr, gamma: Expr | None, beta: Expr | None, *, eps: Scalar, axis: int = -1
) -> tuple[Expr, dict[str, Expr]]:
    """Two passes, the mean first: a mean of squares minus a squared mean would cancel."""
    mean = reduce_mean(x, axis).named("mean")
    centered = (x - mean).named("centered")
    rstd = (1.0 / sqrt(reduce_mean(centered**2, axis) + eps)).named("rstd")
    y = centered * rstd
    if gamma is not None:
        y = y * _align_axis(gamma, axis)
    if beta is not None:
        y = y + _align_axis(beta, axis)
    return y, {"mean": mean, "rstd": rstd}


def adjoint(
    dy: Expr,
    x: Expr,
    gamma: Expr | None,
    beta: Expr | None,
    mean: Expr,
    rstd: Expr,
    *,
    axis: int | None = None,
) -> tuple[Expr | None, ...]:
    """The seed's dLN from the cached statistics: dX, dγ, dβ."""
    axis = -1 if axis is None else axis
    x_hat = ((x - mean) * rstd).named("x_hat")
    dx_hat = dy if gamma is None else (dy * _align_axis(gamma, axis)).named("dx_hat")
    dx = rstd * (dx_hat - reduce_mean(dx_hat, axis) - x_hat * reduce_mean(dx_hat * x_hat, axis))
    dgamma = None if gamma is None else _along(dy * x_hat, gamma, axis)
    dbeta = None if beta is None else _along(dy, beta, axis)
    return dx, dgamma, dbeta


def _align_axis(param: Expr, axis: int) -> Expr:
    """Reshape γ or β so that it broadcasts along an axis that is not the last."""
    return param if axis == -1 else reshape(param, (*param.shape, *(ONE,) * (-1 - axis)))


def _along(gradient: Expr, param: Expr, axis: int) -> Expr:
    """A gradient summed to the shape of γ or β."""
    if axis == -1:
        return unbroadcast(gradient, param.shape)
    others = tuple(each for each in range(-gradient.rank, 0) if each != axis)
    return reduce_sum(gradient, others, keep=False)


def describe(attrs: Attrs) -> Description:
    """With the γ and β that there are."""
    axis, absent = attrs.get("axis", -1), attrs.get("absent", ())
    has_gamma, has_beta = "gamma" not in absent, "beta" not in absent
    then = ["scales by γ"] * has_gamma + ["shifts by β"] * has_beta
    formula = "Y = x̂" + (" ⊙ γ" if has_gamma else "") + (" + β" if has_beta else "")
    scaled = "dx̂" if has_gamma else "dY"
    gradient = f"dX = ({scaled} - mean({scaled}) - x̂ mean({scaled} ⊙ x̂)) / sqrt(σ² + ε)"
    gradient += ", dx̂ = dY ⊙ γ, dγ = Σ dY ⊙ x̂" if has_gamma else ""
    return Description(
        ", ".join([f"normalizes {'the last axis' if axis == -1 else f'axis {axis}'}", *then]),
        f"{formula}, x̂ = (X - μ) / sqrt(σ² + ε)",
        gradient + (", dβ = Σ dY" if has_beta else ""),
    )


CONVENTIONS: Final = (
    Convention("zero", "equal numbers give zeros, divided by sqrt(eps)", "x -> LN",
        {"x [D]": (2.0, 2.0)}, (0.0, 0.0),
        {"x": (-(0.5e5**0.5) / 10**0.5 * 5**0.5, 0.5e5**0.5 / 10**0.5 * 5**0.5)},
        "F.layer_norm(x, x.shape)", cotangent=(1.0, 2.0)),
    Convention("zero", "without eps, equal numbers give NaN", "x -> LN(eps=0)",
        {"x [D]": (2.0, 2.0)}, (math.nan, math.nan), {"x": (math.nan, math.nan)},
        "F.layer_norm(x, x.shape, eps=0)"),
    Convention("axis of length 1", "one number is its own mean: the result is 0", "x -> LN",
        {"x [D]": (3.0,)}, (0.0,), {"x": (0.0,)}, "F.layer_norm(x, x.shape)"),
    Convention("empty axis", "an empty axis gives an empty result", "x -> LN",
        {"x [S, D]": ((), ())}, ((), ()), {"x": ((), ())}, "F.layer_norm(x, x.shape[-1:])"),
    Convention("half type", "mean and variance are added in float32", "x -> LN -> MSE<-t",
        {"x [D]": (0.0, 2.0) * 2048, "t [D]": (0.0,) * 4096}, 1.0,
        {"t": (2.0**-11, -(2.0**-11)) * 2048}, "F.mse_loss(F.layer_norm(x, x.shape), t)", "y []",
        dtype="float16"),
    Convention("half type", "all of the norm is computed in float32, and its result is rounded: in "
        "float16, the square of a deviation above 256 would be inf", "x -> LN",
        {"x [D]": (0.0, 1000.0) * 2}, (-1.0, 1.0) * 2, {"x": (1.0, 0.0, -1.0, 0.0)},
        "F.layer_norm(x, x.shape)", cotangent=(1000.0, 0.0, 0.0, 0.0), dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="LN",
    name="layer_norm",
    family="nonlinear",
    own=(
        Tensor("gamma", optional=True, start="ones"),
        Tensor("beta", optional=True, start="zeros"),
        Number("eps", 1e-5),
    ),
    forward=forward,
    keeps_shape=True,
    limits=limits,
    configure=configure,
    describe=describe,
    brackets="axes",
    adjoint=adjoint,
    conventions=CONVENTIONS,
    meaning="normalizes the last axis, or the one in brackets, to mean 0 and variance 1, then "
    "scales by γ and shifts by β",
    formula="Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)",
    gradient="dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε) with dx̂ = dY ⊙ γ, "
    "dγ = Σ dY ⊙ x̂, dβ = Σ dY",
    source="seed 001, 4.3.6; Ba, Kiros, Hinton 2016",
)
