"""Everything that a generated NumPy module may mention (see `xg.codegen.emit.allowlist`)."""

from __future__ import annotations

from typing import Final

from xg.codegen.emit.allowlist import MATH, STANDARD, Allowlist
from xg.codegen.emit.mentions import words

IMPORTS: Final = STANDARD | {"import numpy as np", "from numpy.typing import NDArray"}
FUNCTIONS: Final = words(
    """
    abs add arange argsort argwhere ascontiguousarray bincount broadcast_to clip concatenate stack
    copysign copyto cos cumsum diff dtype einsum empty empty_like errstate exp float32 full inf
    int64 isfinite lib log matmul maximum minimum moveaxis multiply ndindex ones pad prod
    put_along_axis result_type sin split sqrt take_along_axis tanh uint64 unique
    where zeros zeros_like
    """
)
METHODS: Final = words(
    """
    T accumulate all any append as_strided astype c_contiguous dtype encode flags get isdigit items
    join kind max mean ndim reduceat reshape setdefault shape size sliding_window_view split
    stride_tricks strides sum swapaxes transpose values
    """
)
VOCABULARY: Final = Allowlist(
    IMPORTS,
    {"np": FUNCTIONS, "math": MATH},
    METHODS,
    frozenset({"np.errstate(all='ignore')"}),
    frozenset({"part"}),
)
