"""The derivative of a scalar with respect to edges and parameters of its block.

``grad[x](loss)`` is one node. Once shapes are known, `xg.passes.infer.gradients` gives it a
body: the primitives of the backward pass between the loss and x. Until then it is the operator
below, which knows shapes and errors, and whose body is zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.op import Op
from xg.ir.prim import Expr, broadcast, const
from xg.ir.use import Attrs, Data, Misuse, Use

_SUM: Final = "say what is summed: `{} -> sum[{}] : total`, and take the gradient of total"


def configure(use: Use) -> Attrs:
    """Refuse a loss that is not one float, and variables that are integers."""
    loss, *variables = use.types
    if not loss.is_float:
        raise Misuse("grad needs a loss of floats, and this one has integers")
    if loss.shape:
        axes = use.spell(loss.shape)[1:-1]
        found = f"grad needs a loss that is one number, and this one is {use.spell(loss.shape)}"
        raise Misuse(found, help=(_SUM.format("…", axes),))
    for place, type_ in enumerate(variables, 1):
        if not type_.is_float:
            note = {place: "these are integers"}
            raise Misuse("grad needs floats in brackets: integers have no gradient", note)
    return use.own


def forward(loss: Expr, *variables: Expr) -> Sequence[Expr]:
    """Zeros of the shapes of the variables, until the body is known."""
    return [broadcast(const(0.0), each.shape) for each in (variables or (loss,))]


def gradient(count: int) -> Op:
    """Return the operator of a use with `count` names in brackets."""
    names = [f"x_{place + 1}" for place in range(count)]
    data = (Data("loss", "any"), *(Data(name, "any") for name in names))
    return replace(OP, data=data, outputs=tuple(f"d{name}" for name in names))


OP: Final = Op(
    glyph="grad",
    name="gradient",
    family="nonlinear",
    data=(Data("loss", "any"),),
    outputs=("dx",),
    forward=forward,
    configure=configure,
    brackets="values",
    meaning="the gradient of a loss with respect to each name in brackets: edges, inputs and "
    "parameters of the block",
    formula="dX = ∂loss/∂X",
    gradient="derived from its body: the second derivative",
    source="torch.autograd.grad; jax.grad",
    legend="gradient of a loss",
)
