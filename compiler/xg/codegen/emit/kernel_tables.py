"""The kernels that backends share: which operator each computes, and for which of its uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit.fits import last_axis, no_dropout, no_ignored, rows, rows_of_transpose, word
from xg.codegen.emit.kernel import Kernel, Kernels
from xg.codegen.emit.support import SupportFile

_AROUND: Final = (
    Kernel("ring attention", "ring_attention"),
    Kernel("gradient of ring attention", "d_ring_attention"),
    Kernel("ring attention", "ring_attention_with_dropout"),
    Kernel("gradient of ring attention", "d_ring_attention_with_dropout"),
)
_ALIKE: Final = (
    Kernel("matmul", "product", rows),
    Kernel("matmul", "product_with_transpose", rows_of_transpose),
    Kernel("add", "add_to_first", overwrites="a"),
    Kernel("add", "add_to_second", overwrites="b"),
    Kernel("linear", "linear"),
    Kernel("softmax", "softmax", last_axis),
    Kernel("gradient of softmax", "d_softmax", last_axis),
    Kernel("gelu", "gelu_tanh", word("form", "tanh")),
    Kernel("gradient of gelu", "d_gelu_tanh", word("form", "tanh")),
    Kernel("layer_norm", "layer_norm", last_axis),
    Kernel("layer_norm", "layer_norm_output", last_axis),
    Kernel("gradient of layer_norm", "d_layer_norm", last_axis),
    Kernel("cross_entropy", "cross_entropy", no_ignored),
    Kernel("gradient of cross_entropy", "d_cross_entropy", no_ignored),
    Kernel("attention", "attention"),
    Kernel("attention", "attention_output", no_dropout),
    Kernel("gradient of attention", "d_attention"),
    Kernel("attention", "attention_with_dropout"),
    Kernel("attention", "attention_with_part_of_dropout"),
    Kernel("gradient of attention", "d_attention_with_dropout"),
    Kernel("grouped attention", "grouped_attention_output"),
    Kernel("grouped local attention", "grouped_local_attention_output"),
    Kernel("local_attention", "local_attention"),
    Kernel("local_attention", "local_attention_output"),
    Kernel("gradient of local_attention", "d_local_attention"),
    Kernel("experts", "experts"),
    Kernel("experts", "experts_output"),
    Kernel("gradient of experts", "d_experts"),
    Kernel("experts", "gated_experts"),
    Kernel("experts", "gated_experts_output"),
    Kernel("gradient of experts", "d_gated_experts"),
)


def kernel_tables(
    folder: Path, support: SupportFile, more: Sequence[Kernel] = (), *, releasing: bool = False
) -> tuple[Kernels, Kernels]:
    """Those that go round a ring, which there are always, and those that `--kernels` takes.

    `folder` has the files of a backend; `more` are the kernels of its own, which are tried first.
    """
    names = ("kernels", "attention", "experts", "convolution", "recurrence", "ring_kernels")
    files = [path for name in names if (path := folder / f"{name}.py").exists()]
    ring, flash = folder / "ring.py", folder / "flash.py"
    parts = [flash] if flash.exists() else []
    texts = SupportFile(*map(str, (*files, *parts, ring, folder / "support.py")))
    always = Kernels([ring], support, _AROUND)
    return always, Kernels(files, texts, (*more, *_ALIKE), releasing)
