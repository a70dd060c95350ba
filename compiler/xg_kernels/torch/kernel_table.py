"""Which operator each kernel of torch computes, and for which of its uses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xg.codegen.emit.dialect import Kernel
from xg.codegen.torch.dialect import SUPPORT
from xg_kernels.kernel_tables import kernel_table, over_rows, word

_OWN: Final = (
    Kernel("matmul", "product_over_rows", over_rows, turns=True),
    Kernel("sigmoid", "sigmoid"),
    Kernel("gradient of sigmoid", "d_sigmoid"),
    Kernel("gradient of tanh", "d_tanh"),
    Kernel("swiglu", "swiglu"),
    Kernel("gradient of swiglu", "d_swiglu"),
    Kernel("gradient of gelu", "d_gelu_tanh_in_place", word("form", "tanh"), overwrites="dy"),
    Kernel("gelu", "gelu_exact", word("form", "exact")),
    Kernel("gradient of gelu", "d_gelu_exact_in_place", word("form", "exact"), overwrites="dy"),
    Kernel("gradient of gelu", "d_gelu_exact", word("form", "exact")),
    Kernel("embedding", "embedding"),
    Kernel("convolution", "convolution"),
    Kernel("gradient of convolution", "d_convolution"),
    Kernel("gradient of convolution", "d_convolution_with_bias"),
    Kernel("ring attention", "attention_around"),
    Kernel("gradient of ring attention", "d_attention_around"),
    Kernel("ring attention", "attention_around_with_dropout"),
    Kernel("gradient of ring attention", "d_attention_around_with_dropout"),
)
KERNELS: Final = kernel_table(Path(__file__).parent, SUPPORT, _OWN, releasing=True)
