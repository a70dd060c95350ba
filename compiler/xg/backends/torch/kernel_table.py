"""Which operator each kernel of torch computes, and for which of its uses."""

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


_FILE: Final = Path(__file__).with_name("kernels.py")
KERNELS: Final = Kernels(
    _FILE,
    SupportFile(str(_FILE), str(_FILE.with_name("support.py"))),
    (
        Kernel("add", "add_to_first", overwrites="a"),
        Kernel("add", "add_to_second", overwrites="b"),
        Kernel("linear", "linear"),
        Kernel("softmax", "softmax"),
        Kernel("gradient of softmax", "d_softmax"),
        Kernel("gelu", "gelu_tanh", _word("form", "tanh")),
        Kernel("gradient of gelu", "d_gelu_tanh", _word("form", "tanh")),
        Kernel("gelu", "gelu_exact", _word("form", "exact")),
        Kernel("gradient of gelu", "d_gelu_exact", _word("form", "exact")),
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
