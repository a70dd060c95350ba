"""Everything that a generated torch module may mention (see `xg.emit.closed`)."""

from __future__ import annotations

from typing import Final

from xg.emit.closed import Vocabulary

IMPORTS: Final = frozenset(
    {
        "from __future__ import annotations",
        "import math",
        "from collections.abc import Mapping",
        "from typing import Any, NamedTuple",
        "from typing import NamedTuple",
        "import torch",
    }
)
FUNCTIONS: Final = frozenset(
    {"Tensor", "arange", "as_tensor", "autocast", "autograd", "cat", "constant_pad_nd", "cos"}
    | {"device", "dtype", "einsum", "erf", "exp", "float32", "float64", "full", "full_like"}
    | {"get_autocast_dtype", "inf", "int64", "is_autocast_enabled", "log", "maximum", "minimum"}
    | {"nn", "no_grad", "ones", "randint", "sin", "sqrt", "tanh", "tensor", "where", "zeros"}
    | {"zeros_like"}
)
MATH: Final = frozenset({"cos", "erf", "exp", "log", "prod", "sin", "sqrt", "tanh"})
METHODS: Final = frozenset(
    {"T", "amax", "append", "clamp", "device", "double", "dtype", "expand", "gather", "get"}
    | {"index_add_", "items", "mT", "mean", "ndim", "new_zeros", "numel", "permute", "reshape"}
    | {"scatter_", "setdefault", "shape", "split", "sum", "to", "transpose", "values"}
)
OF_MODULES: Final = frozenset(
    {"__init__", "_make", "function", "once_differentiable"}
    | {"Function", "Module", "ModuleList", "Parameter", "add_module", "at", "autocast", "apply"}
    | {"get_parameter", "get_submodule", "kept", "named_children", "named_parameters"}
    | {"names", "number", "parameters", "register_parameter", "save_for_backward", "saved_tensors"}
    | {"startswith", "training", "type"}
)
DECORATORS: Final = frozenset(
    {"torch.no_grad()", "staticmethod", "torch.autograd.function.once_differentiable"}
)
VOCABULARY: Final = Vocabulary(
    imports=IMPORTS,
    modules={"torch": FUNCTIONS, "math": MATH},
    methods=METHODS | OF_MODULES,
    decorators=DECORATORS,
    callables=frozenset({"block"}),
)
