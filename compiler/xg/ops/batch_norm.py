"""Batch normalization: over the batch and its places, or by running statistics.

The running statistics are frozen parameters, so passes stay pure and checkpoints have them. A
gradient of μ - mean(X) would be no derivative of the loss, and outputs of blocks would pass through
every caller. Under a plan they are those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from xg.ir.conventions import Convention
from xg.ir.dim import ONE, Scalar, as_scalar, product, size
from xg.ir.functions import sqrt
from xg.ir.op import Description, Op
from xg.ir.prim import (
    Expr,
    broadcast,
    const,
    draw,
    maximum,
    reduce_mean,
    reduce_sum,
    reshape,
    stop,
    where,
)
from xg.ir.use import Attrs, Misuse, Number, Tensor, Use


def configure(use: Use) -> Attrs:
    """The `axes` of the statistics, all but the last without brackets, and how many numbers."""
    x, *own = use.types
    if len(x.shape) < 2:
        raise Misuse(
            "BN needs an axis of channels, and others", {0: f"this is {use.spell(x.shape)}"}
        )
    named = use.named_axes() if use.axes is not None else range(-len(x.shape), -1)
    axes = tuple(sorted(named))
    kept = tuple(x.shape[i] for i in range(-len(x.shape), 0) if i not in axes)
    for place, type_ in enumerate(own, 1):
        if type_.shape != kept:
            notes = {0: f"this is {use.spell(x.shape)}", place: f"this is {use.spell(type_.shape)}"}
            help = use.channels(own, "BN")
            raise Misuse(f"BN has a number for each of {use.spell(kept)}", notes, help)
    absent = use.own.get("absent", ())
    if ("mean" in absent) != ("variance" in absent):
        raise Misuse("BN has both running statistics or none", help=("BN(γ, β, μ, v)",))
    return {**use.own, "axes": axes, "count": size(product([x.shape[i] for i in axes]))}


def limits(numbers: Mapping[str, float]) -> Misuse | None:
    """Refuse an ε below 0, and a momentum that is no share."""
    if numbers["eps"] < 0:
        return Misuse(f"BN adds eps = {numbers['eps']:g} to a variance", help=("eps >= 0",))
    if not 0 <= numbers["momentum"] <= 1:
        message = f"BN moves running statistics by a share of {numbers['momentum']:g}"
        return Misuse(message, help=("0 <= momentum <= 1",))
    return None


def forward(
    x: Expr,
    gamma: Expr | None,
    beta: Expr | None,
    mean: Expr | None,
    variance: Expr | None,
    *,
    eps: Scalar,
    momentum: Scalar,
    axes: Sequence[int],
    count: Scalar,
) -> tuple[Expr, dict[str, Expr]]:
    """In training by the statistics of the batch, else by the running ones, if there are any.

    A run with a seed is one of training. Running statistics approach the mean, and the variance
    that divides by n - 1.
    """
    del momentum  # for what moves them
    center = reduce_mean(x, axes, keep=False)
    trained = None if mean is None else _training_flag()
    if mean is not None and trained is not None:
        center = where(trained > 0.0, center, stop(mean))
    center = center.named("center")
    centered = (x - _align_channels(center, x, axes)).named("centered")
    spread = reduce_mean(centered**2, axes, keep=False)
    caches = {"center": center}
    if variance is not None and trained is not None:
        unbiased = spread.named("squares") * count / maximum(const(count) - 1.0, 1.0)
        caches |= {"moved_to": where(trained > 0.0, unbiased, stop(variance)), "trained": trained}
        spread = where(trained > 0.0, spread, stop(variance)).named("spread")
    caches["rstd"] = rstd = (1.0 / sqrt(spread + eps)).named("rstd")
    y = centered * _align_channels(rstd, x, axes)
    y = y if gamma is None else y * _align_channels(gamma, x, axes)
    return y if beta is None else y + _align_channels(beta, x, axes), caches


def _training_flag() -> Expr:
    """Return 1 if there is a seed, as a draw that always gives 1, and else its mean, 0."""
    return draw(broadcast(const(0.0), (ONE,)), "bernoulli", as_scalar(1.0)).named("trained")


def adjoint(
    dy: Expr,
    x: Expr,
    gamma: Expr | None,
    beta: Expr | None,
    center: Expr,
    rstd: Expr,
    trained: Expr | None,
    *,
    axes: Sequence[int],
) -> tuple[Expr | None, ...]:
    """As of LN, over other axes; running statistics have none, and are constants of X."""
    x_hat = ((x - _align_channels(center, x, axes)) * _align_channels(rstd, x, axes)).named("x_hat")
    dx_hat = dy if gamma is None else (dy * _align_channels(gamma, x, axes)).named("dx_hat")
    first, second = (reduce_mean(each, axes, keep=False) for each in (dx_hat, dx_hat * x_hat))
    if trained is not None:
        first, second = trained * first, trained * second
    dx = _align_channels(rstd, x, axes) * (
        dx_hat - _align_channels(first, x, axes) - x_hat * _align_channels(second, x, axes)
    )
    dgamma = None if gamma is None else reduce_sum(dy * x_hat, axes, keep=False)
    dbeta = None if beta is None else reduce_sum(dy, axes, keep=False)
    return dx, dgamma, dbeta, None, None


def _align_channels(param: Expr, x: Expr, axes: Sequence[int]) -> Expr:
    """Reshape a number for each channel so that it broadcasts along the other axes."""
    if tuple(axes) == tuple(range(-x.rank, len(axes) - x.rank)):
        return param
    shape = tuple(ONE if i in axes else x.shape[i] for i in range(-x.rank, 0))
    return reshape(param, shape)


def describe(attrs: Attrs) -> Description:
    """With the γ, β and running statistics that there are."""
    absent = attrs.get("absent", ())
    has_gamma, has_beta, runs = (n not in absent for n in ("gamma", "beta", "mean"))
    then = ["scales by γ"] * has_gamma + ["shifts by β"] * has_beta
    formula = "Y = x̂" + (" ⊙ γ" if has_gamma else "") + (" + β" if has_beta else "")
    of = "μ, σ² of the batch" + ("; without a seed the running ones" if runs else "")
    scaled = "dx̂" if has_gamma else "dY"
    gradient = f"dX = ({scaled} - mean({scaled}) - x̂ mean({scaled} ⊙ x̂)) / sqrt(σ² + ε)"
    gradient += f"; without a seed dX = {scaled} / sqrt(σ² + ε)" if runs else ""
    return Description(
        ", ".join(["normalizes each channel", *then]),
        f"{formula}, x̂ = (X - μ) / sqrt(σ² + ε), {of}",
        gradient,
    )


CONVENTIONS: Final = (
    Convention("zero", "equal numbers give zeros, divided by sqrt(eps)", "x -> BN",
        {"x [B, C]": ((2.0,), (2.0,))}, ((0.0,), (0.0,)),
        {"x": ((-0.5 / 1e-5**0.5,), (0.5 / 1e-5**0.5,))},
        "F.batch_norm(x, None, None, training=True)", cotangent=((1.0,), (2.0,))),
    Convention("axis of length 1", "one number is its own mean: the result is 0", "x -> BN",
        {"x [B, C]": ((3.0, 5.0),)}, ((0.0, 0.0),), {"x": ((0.0, 0.0),)},
        "F.batch_norm(x, None, None, training=True)", differs="PyTorch refuses one value per "
        "channel in training. xg gives zeros, which is what the formula says."),
    Convention("empty axis", "an empty batch gives an empty batch", "x -> BN", {"x [B, C]": ()}, (),
        {"x": ()}),
    Convention("half type", "mean and variance are added in float32", "x -> BN -> MSE<-t",
        {"x [B, C]": ((0.0,), (2.0,)) * 2048, "t [B, C]": ((0.0,),) * 4096}, 1.0,
        {"t": ((2.0**-11,), (-(2.0**-11),)) * 2048},
        "F.mse_loss(F.batch_norm(x, None, None, training=True), t)", "y []", dtype="float16"),
    Convention("half type", "all of the norm is computed in float32, and its result is rounded: in "
        "float16, the square of a deviation above 256 would be inf", "x -> BN",
        {"x [B, C]": ((0.0,), (1000.0,)) * 2}, ((-1.0,), (1.0,)) * 2,
        {"x": ((1.0,), (0.0,), (-1.0,), (0.0,))}, "F.batch_norm(x, None, None, training=True)",
        cotangent=((1000.0,), (0.0,), (0.0,), (0.0,)), dtype="float16"),
)  # fmt: skip

OP: Final = Op(
    glyph="BN",
    name="batch_norm",
    family="nonlinear",
    own=(
        Tensor("gamma", optional=True, start="ones", shape=("last",)),
        Tensor("beta", optional=True, start="zeros", shape=("last",)),
        Tensor("mean", optional=True, start="zeros", shape=("last",)),
        Tensor("variance", optional=True, start="ones", shape=("last",)),
        Number("eps", 1e-5),
        Number("momentum", 0.1),
    ),
    forward=forward,
    keeps_shape=True,
    sums_over_ranks=True,
    limits=limits,
    configure=configure,
    describe=describe,
    brackets="axes",
    adjoint=adjoint,
    moves={"mean": "center", "variance": "moved_to"},
    conventions=CONVENTIONS,
    meaning="normalizes each channel with the batch's mean and variance, over all other axes or "
    "those in brackets, then scales by γ and shifts by β; without a seed, uses the running "
    "statistics, if any; training updates them with momentum",
    formula="Y = x̂ ⊙ γ + β, x̂ = (X - μ) / sqrt(σ² + ε)",
    gradient="dX = (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) / sqrt(σ² + ε) with dx̂ = dY ⊙ γ, "
    "dγ = Σ dY ⊙ x̂, dβ = Σ dY",
    source="Ioffe, Szegedy 2015",
)
