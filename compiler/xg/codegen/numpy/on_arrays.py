"""A generated NumPy module in another type of floats than the one that its arrays have."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg.diagnostics.lazy_dataclass import dataclass

Arrays = dict[str, NDArray[Any]]


def on_arrays(module: ModuleType, dtype: str | None = None) -> object:
    """Return the module itself, or one that first converts floats to a type."""
    return module if dtype is None else InType(module, np.dtype(dtype))


@dataclass(frozen=True)
class InType:
    """The module with floats of one type; integers stay as they are."""

    module: ModuleType
    dtype: np.dtype[Any]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what a module has
        return getattr(self.module, name)

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Any]:
        """Return outputs and what `backward` needs; dropout is off when `seed` is None."""
        return self.module.forward(
            self._convert_arrays(params), self._convert_arrays(inputs), seed=seed
        )

    def backward(self, params: Arrays, saved: object, d_outputs: Arrays) -> Arrays:
        """Return the gradients of all parameters and float inputs, keyed by name."""
        return self.module.backward(
            self._convert_arrays(params), saved, self._convert_arrays(d_outputs)
        )

    def _convert_arrays(self, arrays: Arrays) -> Arrays:
        return {
            name: array.astype(self.dtype) if np.issubdtype(array.dtype, np.floating) else array
            for name, array in arrays.items()
        }
