"""Layer normalization over the last axis (seed 001, 4.3.6: node LN, backward dLN)."""

from __future__ import annotations

from typing import Final

from xg.ir.cotangent import unbroadcast
from xg.ir.op import Op
from xg.ir.prim import Expr, reduce_mean, sqrt
from xg.ir.scalar import Scalar
from xg.ir.use import Attrs, Misuse, Number, Tensor, Use


def configure(use: Use) -> Attrs:
    """Refuse γ and β of another length than the axis that is normalized."""
    x, *affine = use.types
    if not x.shape:
        raise Misuse("LN needs an axis to normalize", {0: "this is a scalar"})
    for place, type_ in enumerate(affine, 1):
        if type_.shape != x.shape[-1:]:
            raise Misuse(
                f"LN normalizes {use.sizes.fold(x.shape[-1])} numbers",
                {
                    0: f"{use.spell(x.shape)} ends in {use.sizes.fold(x.shape[-1])}",
                    place: f"this is {use.spell(type_.shape)}",
                },
            )
    return use.own


def forward(
    x: Expr, gamma: Expr | None, beta: Expr | None, *, eps: Scalar
) -> tuple[Expr, dict[str, Expr]]:
    """Two passes, the mean first: a mean of squares minus a squared mean would cancel."""
    mean = reduce_mean(x).named("mean")
    centred = (x - mean).named("centred")
    rstd = (1.0 / sqrt(reduce_mean(centred**2) + eps)).named("rstd")
    y = centred * rstd
    if gamma is not None:
        y = y * gamma
    if beta is not None:
        y = y + beta
    return y, {"mean": mean, "rstd": rstd}


def adjoint(
    dy: Expr, x: Expr, gamma: Expr | None, beta: Expr | None, mean: Expr, rstd: Expr
) -> tuple[Expr | None, ...]:
    """The seed's dLN from the cached statistics: dX, dγ, dβ."""
    x_hat = ((x - mean) * rstd).named("x_hat")
    dx_hat = dy if gamma is None else (dy * gamma).named("dx_hat")
    dx = rstd * (dx_hat - reduce_mean(dx_hat) - x_hat * reduce_mean(dx_hat * x_hat))
    dgamma = None if gamma is None else unbroadcast(dy * x_hat, gamma.shape)
    dbeta = None if beta is None else unbroadcast(dy, beta.shape)
    return dx, dgamma, dbeta


OP: Final = Op(
    glyph="LN",
    name="layer_norm",
    family="nonlinear",
    own=(Tensor("gamma", optional=True), Tensor("beta", optional=True), Number("eps", 1e-5)),
    forward=forward,
    keeps_shape=True,
    configure=configure,
    adjoint=adjoint,
    meaning="normalizes the last axis to mean 0 and variance 1, then scales by γ and shifts by β",
    formula="Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)",
    gradient="dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε) with dx̂ = dY ⊙ γ, "
    "dγ = Σ dY ⊙ x̂, dβ = Σ dY",
    source="seed 001, 4.3.6; Ba, Kiros, Hinton 2016",
)
