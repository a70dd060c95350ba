"""Everything that a generated torch module may mention (see `xg.emit.closed`)."""

from __future__ import annotations

from typing import Final

from xg.emit.closed import Vocabulary

IMPORTS: Final = frozenset(
    {
        "from __future__ import annotations",
        "import math",
        "from collections.abc import Mapping",
        "from typing import NamedTuple",
        "import torch",
    }
)
FUNCTIONS: Final = frozenset(
    {"Tensor", "arange", "as_tensor", "cat", "constant_pad_nd", "cos", "device", "dtype", "einsum"}
    | {
        "erf",
        "exp",
        "float32",
        "float64",
        "full",
        "full_like",
        "inf",
        "int64",
        "log",
        "maximum",
        "minimum",
    }
    | {"no_grad", "ones", "sin", "sqrt", "tanh", "tensor", "where", "zeros", "zeros_like"}
)
MATH: Final = frozenset({"cos", "erf", "exp", "log", "prod", "sin", "sqrt", "tanh"})
METHODS: Final = frozenset(
    {"T", "amax", "append", "clamp", "device", "double", "dtype", "expand", "gather", "get"}
    | {"index_add_", "items", "mT", "mean", "ndim", "new_zeros", "numel", "permute", "reshape"}
    | {"scatter_", "setdefault", "shape", "split", "sum", "to", "transpose", "values"}
)
DECORATORS: Final = frozenset({"torch.no_grad()"})
VOCABULARY: Final = Vocabulary(
    IMPORTS, {"torch": FUNCTIONS, "math": MATH}, METHODS, decorators=DECORATORS
)
