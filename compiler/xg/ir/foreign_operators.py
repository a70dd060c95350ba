"""The names that other libraries give the operators of the language, in small letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

FOREIGN_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "•": (
        "matmul", "mm", "bmm", "dot", "einsum", "mul_mat", "inner",
        "linear", "dense", "fc", "gemm", "addmm", "affine",
    ),
    "⊕": ("add", "plus", "residual", "skip"),
    "⊙": ("mul", "multiply", "hadamard", "times"),
    "S": ("softmax",),
    "ReLU": ("relu", "rectifier"),
    "SiLU": ("swish",),
    "LN": ("layernorm", "layernormalization", "layer_norm", "norm"),
    "DO": ("dropout", "dropout1d", "dropout2d"),
    "SM": ("mask", "masked_fill", "tril", "triu"),
    "Emb": ("embedding", "embed", "embeddings", "lookup"),
    "C": ("cat", "concat", "concatenate", "hstack", "vstack", "stack", "append"),
    "T": ("transpose", "permute", "swapaxes", "moveaxis"),
    "R": ("reshape", "view", "flatten", "rearrange", "unsqueeze", "squeeze", "unflatten"),
    "BC": ("expand", "repeat", "tile", "broadcast", "broadcast_to", "repeat_interleave"),
    "CE": ("crossentropy", "crossentropyloss", "cross_entropy", "nll_loss", "nllloss", "loss"),
    "MSE": ("mseloss", "mse_loss"),
    "BCE": ("bceloss", "bcewithlogitsloss"),
    "RoPE": ("rotary", "rotaryembedding", "apply_rotary_pos_emb"),
    "conv": ("conv1d", "conv2d", "conv3d", "convolution"),
    "window": ("unfold", "im2col", "sliding_window_view"),
    "overlap": ("fold", "col2im"),
    "maxpool": ("maxpool1d", "maxpool2d", "max_pool2d"),
    "meanpool": ("avgpool", "avgpool2d", "averagepooling2d", "avg_pool2d"),
    "mean": ("globalaveragepooling2d", "adaptiveavgpool2d", "average"),
    "upsample": ("interpolate", "upsampling2d", "resize"),
    "gather": ("index_select", "take", "take_along_axis", "take_along_dim"),
    "scatter": ("index_add", "scatter_add", "segment_sum"),
    "topk": ("top_k", "argmax", "argsort", "sort", "kthvalue"),
    "sinusoid": ("positionalencoding", "positional_encoding", "posenc"),
    "slice": ("narrow", "crop", "cut", "select"),
    "stop": ("detach", "stop_gradient", "stopgradient", "no_grad", "sg"),
}  # fmt: skip

# Names of exactly one operator, which can stand in their place as they are.
SAME: Final[Mapping[str, str]] = {
    **dict.fromkeys(("softmax",), "S"),
    **dict.fromkeys(("relu", "rectifier"), "ReLU"),
    **dict.fromkeys(("layernorm", "layernormalization", "layer_norm"), "LN"),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d"), "DO"),
    **dict.fromkeys(("matmul", "mm", "bmm", "dot"), "•"),
    **dict.fromkeys(("add", "plus"), "⊕"),
    **dict.fromkeys(("mul", "multiply", "hadamard"), "⊙"),
    **dict.fromkeys(("cat", "concat", "concatenate"), "C"),
    "swish": "SiLU",
    "embedding": "Emb",
    "rotary": "RoPE",
}


def foreign_names(glyph: str, name: str) -> Iterator[str]:
    """Other names by which an operator is looked for; `name` is that of the language."""
    yield from dict.fromkeys((name, *FOREIGN_NAMES.get(glyph, ())))
