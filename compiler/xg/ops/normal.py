"""Random numbers of a normal distribution (Kingma, Welling 2014: the noise of a VAE)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.ir.dim import Scalar
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const, draw
from xg.ir.tensor import Shape
from xg.ir.use import Misuse, Number, new_axes


def limits(numbers: Mapping[str, float]) -> Misuse | None:
    """Refuse a deviation that is not above 0; the mean is the second number."""
    sigma, mean = numbers["sigma"], numbers["mean"]
    if sigma > 0:
        return None
    turned = (f"the deviation comes before the mean: normal[…]({mean:g}, 0)",)
    help = turned if sigma == 0 and mean > 0 else ("sigma > 0; one number everywhere is fill",)
    return Misuse(f"normal has the deviation {sigma:g}", help=help)


def forward(*, sigma: Scalar, mean: Scalar, shape: Shape) -> Expr:
    """Numbers around `mean`; `mean` itself when the program runs without a seed."""
    return draw(broadcast(const(mean), shape), "normal", sigma)


OP: Final = Op(
    glyph="normal",
    name="normal",
    family="source",
    data=(),
    own=(Number("sigma"), Number("mean", 0)),
    brackets="new axes",
    forward=forward,
    limits=limits,
    configure=new_axes("normal", "normal[B, S](1)"),
    meaning="draws normal random numbers; without a seed, each is the mean",
    formula="Y[i, ...] = mean + sigma z, z of deviation 1",
    gradient="none: nothing is learned",
    source="Kingma, Welling 2014",
    legend="normal random numbers",
)
