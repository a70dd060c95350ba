"""Which operator each kernel of NumPy computes, and for which of its uses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xg.emit.kernel import Fits, Kernel, Kernels
from xg.emit.support import SupportFile
from xg.prim import Body
from xg.use import Attrs


def _word(name: str, word: str) -> Fits:
    return lambda attrs, body: attrs[name] == word


def _no_ignored(attrs: Attrs, body: Body) -> bool:
    return attrs.get("ignore") is None


def _rows(attrs: Attrs, body: Body) -> bool:
    """``[.., i, k] • [k, j]`` with axes in front."""
    a, b = _letters(body)
    return len(a) > 2 and len(b) == 2 and a[-1] == b[0]


def _rows_of_transpose(attrs: Attrs, body: Body) -> bool:
    """``[.., i, k] • [j, k]``, the gradient of that."""
    a, b = _letters(body)
    return len(a) > 2 and len(b) == 2 and a[-1] == b[1]


def _letters(body: Body) -> list[str]:
    (product,) = body.outputs
    return str(product.attr("spec")).split("->")[0].split(",")


_FILE: Final = Path(__file__).with_name("kernels.py")
KERNELS: Final = Kernels(
    _FILE,
    SupportFile(str(_FILE), str(_FILE.with_name("support.py"))),
    (
        Kernel("matmul", "product", _rows),
        Kernel("matmul", "product_with_transpose", _rows_of_transpose),
        Kernel("add", "add_to_first", overwrites="a"),
        Kernel("add", "add_to_second", overwrites="b"),
        Kernel("linear", "linear"),
        Kernel("softmax", "softmax"),
        Kernel("gradient of softmax", "d_softmax"),
        Kernel("gelu", "gelu_tanh", _word("form", "tanh")),
        Kernel("gradient of gelu", "d_gelu_tanh", _word("form", "tanh")),
        Kernel("layer_norm", "layer_norm"),
        Kernel("gradient of layer_norm", "d_layer_norm"),
        Kernel("cross_entropy", "cross_entropy", _no_ignored),
        Kernel("gradient of cross_entropy", "d_cross_entropy", _no_ignored),
        Kernel("attention", "attention"),
        Kernel("gradient of attention", "d_attention"),
        Kernel("attention", "attention_with_dropout"),
        Kernel("gradient of attention", "d_attention_with_dropout"),
    ),
)
