"""Stop a gradient: the forward pass continues, the backward pass does not."""

from __future__ import annotations

from typing import Final

from xg.ir.op import Op
from xg.ir.prim import stop

OP: Final = Op(
    glyph="stop",
    name="stop",
    family="layout",
    forward=stop,
    keeps_shape=True,
    pullback=lambda attrs: {},
    meaning="passes its operand through, and stops its gradient",
    formula="Y = X",
    gradient="none: it counts as a constant",
    source="torch.Tensor.detach; jax.lax.stop_gradient",
    legend="no gradient goes back",
)
