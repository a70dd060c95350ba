"""Generated modules of any backend, called with NumPy arrays."""

from types import ModuleType
from typing import cast

from xg_runtime.module import Module


def on_arrays(module: ModuleType, backend: str, dtype: str | None = None) -> Module:
    """Return a generated module on NumPy arrays, whatever computes; `dtype` may be bfloat16."""
    if backend == "numpy":
        return cast(Module, module)
    from xg_runtime.tensors import OnArrays, TorchModule

    return OnArrays(cast(TorchModule, module), dtype)
