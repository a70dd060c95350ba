"""Which operator each kernel of torch computes, and for which of its uses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xg.codegen.emit.fits import (
    last_axis,
    no_dropout,
    no_ignored,
    rows,
    rows_of_transpose,
    word,
)
from xg.codegen.emit.kernel import Kernel, Kernels
from xg.codegen.emit.support import SupportFile
from xg.codegen.torch.spelling import SUPPORT

_FILES: Final = [
    Path(__file__).with_name(name)
    for name in ("kernels.py", "attention.py", "experts.py", "recurrence.py")
]
_AROUND: Final = (
    Kernel("ring attention", "ring_attention"),
    Kernel("gradient of ring attention", "d_ring_attention"),
    Kernel("ring attention", "ring_attention_with_dropout"),
    Kernel("gradient of ring attention", "d_ring_attention_with_dropout"),
)
_ring = Path(__file__).with_name("ring.py")
ALWAYS: Final = Kernels([_ring], SUPPORT, _AROUND)
KERNELS: Final = Kernels(
    _FILES,
    SupportFile(*map(str, _FILES), str(_ring), str(Path(__file__).with_name("support.py"))),
    (
        Kernel("matmul", "product", rows),
        Kernel("matmul", "product_with_transpose", rows_of_transpose),
        Kernel("add", "add_to_first", overwrites="a"),
        Kernel("add", "add_to_second", overwrites="b"),
        Kernel("linear", "linear"),
        Kernel("softmax", "softmax", last_axis),
        Kernel("gradient of softmax", "d_softmax", last_axis),
        Kernel("sigmoid", "sigmoid"),
        Kernel("gradient of sigmoid", "d_sigmoid"),
        Kernel("gradient of tanh", "d_tanh"),
        Kernel("gelu", "gelu_tanh", word("form", "tanh")),
        Kernel("gradient of gelu", "d_gelu_tanh_in_place", word("form", "tanh"), overwrites="dy"),
        Kernel("gradient of gelu", "d_gelu_tanh", word("form", "tanh")),
        Kernel("gelu", "gelu_exact", word("form", "exact")),
        Kernel("gradient of gelu", "d_gelu_exact_in_place", word("form", "exact"), overwrites="dy"),
        Kernel("gradient of gelu", "d_gelu_exact", word("form", "exact")),
        Kernel("embedding", "embedding"),
        Kernel("layer_norm", "layer_norm", last_axis),
        Kernel("layer_norm", "layer_norm_output", last_axis),
        Kernel("gradient of layer_norm", "d_layer_norm", last_axis),
        Kernel("convolution", "convolution"),
        Kernel("gradient of convolution", "d_convolution"),
        Kernel("gradient of convolution", "d_convolution_with_bias"),
        Kernel("cross_entropy", "cross_entropy", no_ignored),
        Kernel("gradient of cross_entropy", "d_cross_entropy", no_ignored),
        Kernel("attention", "attention"),
        Kernel("attention", "attention_output", no_dropout),
        Kernel("gradient of attention", "d_attention"),
        Kernel("attention", "attention_with_dropout"),
        Kernel("attention", "attention_with_part_of_dropout"),
        Kernel("gradient of attention", "d_attention_with_dropout"),
        Kernel("local_attention", "local_attention"),
        Kernel("local_attention", "local_attention_output"),
        Kernel("gradient of local_attention", "d_local_attention"),
        Kernel("experts", "experts"),
        Kernel("experts", "experts_output"),
        Kernel("gradient of experts", "d_experts"),
        Kernel("experts", "gated_experts"),
        Kernel("experts", "gated_experts_output"),
        Kernel("gradient of experts", "d_gated_experts"),
    ),
    releasing=True,
)
