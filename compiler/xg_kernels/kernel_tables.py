"""List the kernels of each backend: the operator each computes, and the uses that it fits.

Backends share most of them. Passes put fused operators into programs for some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from xg.codegen.emit.dialect import Fits, Kernel, Kernels
from xg.codegen.emit.spelling import SupportFile
from xg.codegen.numpy.dialect import SUPPORT as NUMPY_SUPPORT
from xg.codegen.numpy.dialect import in_numpy
from xg.codegen.torch.dialect import SUPPORT as TORCH_SUPPORT
from xg.ir.body import Body
from xg.ir.dim import ONE
from xg.ir.op import Op
from xg.ir.use import Attrs
from xg_kernels import grouped_attention
from xg_kernels.fuse import fusions

FOLDER: Final = Path(__file__).parent

# For which uses of an operator a kernel is.


def word(name: str, said: str) -> Fits:
    """Uses that say a word: ``form`` is ``tanh``."""
    return lambda attrs, body: attrs[name] == said


def one_group(attrs: Attrs, body: Body) -> bool:
    """A convolution that connects all channels."""
    return attrs["groups"] == ONE


def counts_every_position(attrs: Attrs, body: Body) -> bool:
    """A loss for which every position counts."""
    return attrs.get("ignore") is None


def no_dropout(attrs: Attrs, body: Body) -> bool:
    """A use that draws nothing."""
    return attrs.get("p") is None


def rows(attrs: Attrs, body: Body) -> bool:
    """Match ``[.., i, k] • [k, j]`` with leading axes."""
    a, b = _letters(body)
    return len(a) > 2 and len(b) == 2 and a[-1] == b[0]


def rows_of_transpose(attrs: Attrs, body: Body) -> bool:
    """``[.., i, k] • [j, k]``, the gradient of that."""
    a, b = _letters(body)
    return len(a) > 2 and len(b) == 2 and a[-1] == b[1]


def over_rows(attrs: Attrs, body: Body) -> bool:
    """``[.., k, i] • [.., k, j]`` summed over all axes but the last: the gradient of a matrix."""
    a, b = _letters(body)
    return len(a) > 2 and a[:-1] == b[:-1] and _spec(body).endswith(f"->{a[-1]}{b[-1]}")


def _letters(body: Body) -> list[str]:
    return _spec(body).split("->")[0].split(",")


def _spec(body: Body) -> str:
    (product,) = body.outputs
    return str(product.attr("spec"))


def last_axis(attrs: Attrs, body: Body) -> bool:
    """Whether a use works along the last axis of its operand."""
    return attrs.get("axis", -1) == -1


_SHARED: Final = (
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
    Kernel("cross_entropy", "cross_entropy", counts_every_position),
    Kernel("gradient of cross_entropy", "d_cross_entropy", counts_every_position),
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
_NUMPY: Final = (
    Kernel("convolution", "convolution", one_group),
    Kernel("gradient of convolution", "d_convolution", one_group),
    Kernel("gradient of convolution", "d_convolution_with_bias", one_group),
)
_TORCH: Final = (
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


def kernel_table(
    folder: Path,
    support: SupportFile,
    more: Sequence[Kernel] = (),
    *,
    spell: Callable[[str], str] = str,
    releasing: bool = False,
) -> Kernels:
    """Return the kernels of one backend: its own, which are tried first, and the shared ones.

    `folder` has their files, `support` the functions that they may call; `spell` says what backends
    share in words of this one.
    """
    names = ("kernels", "attention", "experts", "convolution", "recurrence", "ring_kernels")
    files = [path for name in names if (path := folder / f"{name}.py").exists()]
    parts = [path] if (path := folder / "flash.py").exists() else []
    functions = SupportFile(FOLDER / "shared.py", spell=spell) + SupportFile(*files)
    return Kernels(
        functions, functions + SupportFile(*parts) + support, (*more, *_SHARED), releasing
    )


NUMPY_KERNELS: Final = kernel_table(FOLDER / "numpy", NUMPY_SUPPORT, _NUMPY, spell=in_numpy)
TORCH_KERNELS: Final = kernel_table(FOLDER / "torch", TORCH_SUPPORT, _TORCH, releasing=True)


def kernels(title: str) -> Kernels | None:
    """Return the kernels of a backend; None if it has only expressions."""
    return {"NumPy": NUMPY_KERNELS, "torch": TORCH_KERNELS}.get(title)


def fused_operators() -> tuple[Op, ...]:
    """Return the operators that no file can write, for fused patterns and grouped heads."""
    ops = (fusion.op for fusion in fusions())
    return (*ops, grouped_attention.OP, grouped_attention.LOCAL)
