"""Which rule reads which aten call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xg_torch.importing import rules_elementwise as elementwise
from xg_torch.importing import rules_join as join
from xg_torch.importing import rules_layout as layout
from xg_torch.importing import rules_mask as masks
from xg_torch.importing import rules_product as products
from xg_torch.importing import rules_reduce as reduce
from xg_torch.importing import rules_routing as routing
from xg_torch.importing import rules_windows as windows
from xg_torch.importing.known import Known
from xg_torch.importing.lowering import Lowering
from xg_torch.importing.rules_batch_norm import batch_norm

Rule = Callable[[Lowering], "Known | tuple[Known, ...]"]

# Tensors that take only the shape of another, and the number that fills them.
FILLS: Final[Mapping[str, int | None]] = {
    "zeros_like": 0,
    "ones_like": 1,
    "full_like": None,
    "new_zeros": 0,
    "new_ones": 1,
    "new_full": None,
}

# Of one number, which the operators of the language call the same.
FUNCTIONS: Final = (
    *("relu", "relu_", "silu", "silu_", "tanh", "sigmoid", "neg", "exp", "log"),
    *("sqrt", "rsqrt", "erf", "sin", "cos", "abs"),
)

RULES: Final[Mapping[str, Rule]] = {
    "linear": products.linear,
    "addmm": products.addmm,
    **dict.fromkeys(("matmul", "mm", "bmm"), products.matmul),
    "scaled_dot_product_attention": products.attention,
    "embedding": products.embedding,
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), windows.convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), windows.pooling("maxpool")),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d"), windows.pooling("meanpool")),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d"), windows.whole_mean),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d"), windows.upsample),
    "batch_norm": batch_norm,
    **dict.fromkeys(("add", "add_"), elementwise.add),
    **dict.fromkeys(("mul", "mul_"), elementwise.multiply),
    "sub": elementwise.arithmetic("sub"),
    "rsub": elementwise.arithmetic("sub", swapped=True),
    **dict.fromkeys(("div", "div_"), elementwise.arithmetic("div")),
    "pow": elementwise.power,
    **dict.fromkeys(("clamp", "clamp_min"), elementwise.clamp),
    **{name: elementwise.function(name.removesuffix("_")) for name in FUNCTIONS},
    "square": elementwise.square,
    "gelu": elementwise.gelu,
    "glu": elementwise.gated_linear_unit,
    **dict.fromkeys(("dropout", "dropout_"), elementwise.dropout),
    **dict.fromkeys(("softmax", "_softmax"), reduce.softmax),
    "layer_norm": reduce.layer_norm,
    "rms_norm": reduce.rms_norm,
    "mean": reduce.reduction("mean"),
    "sum": reduce.reduction("sum"),
    "max": reduce.maximum,
    "cross_entropy_loss": reduce.cross_entropy,
    "mse_loss": reduce.squared_error,
    "binary_cross_entropy_with_logits": reduce.binary_cross_entropy,
    "topk": routing.top,
    "cat": join.concatenate,
    "stack": join.stack,
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "unbind"), layout.pieces),
    **dict.fromkeys(("masked_fill", "masked_fill_"), masks.masked_fill),
    "where": masks.where,
    **dict.fromkeys(("__and__", "bitwise_and", "logical_and"), masks.both),
    **dict.fromkeys(("__or__", "bitwise_or", "logical_or"), masks.either),
    **dict.fromkeys(("bitwise_not", "logical_not"), masks.negation),
    "eq": masks.compare(lambda b: {0: False, 1: True}.get(int(b))),
    "ne": masks.compare(lambda b: {0: True, 1: False}.get(int(b))),
    "gt": masks.compare(lambda b: True if b == 0 else None),
    "ge": masks.compare(lambda b: True if b == 1 else None),
    "lt": masks.compare(lambda b: False if b == 1 else None),
    **dict.fromkeys(("to", "_to_copy", "type_as"), masks.cast),
}
