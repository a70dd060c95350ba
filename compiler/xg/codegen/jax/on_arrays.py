"""A generated JAX module, used as one on arrays of NumPy: compiled, in the types of the arrays.

JAX computes in float64 only where that is enabled: here inside of each call, which leaves the
setting of the process as it is. It sorts dicts by their keys, except ordered ones.
"""

# JAX says too little of its own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike, NDArray

from xg.diagnostics.lazy_dataclass import dataclass

Arrays = dict[str, NDArray[Any]]
Ordered = OrderedDict[str, Any]


@dataclass(frozen=True)
class OnArrays:
    """The module on arrays; `dtype` is what floats are computed in, where it is not theirs."""

    module: ModuleType
    dtype: str | None = None

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32, **sizes: int) -> Arrays:
        """Return the parameters by their diagram names."""

        def init(word: Any) -> Ordered:  # noqa: ANN401
            return OrderedDict(self.module.init(word, dtype, **sizes))

        with jax.enable_x64(True):  # compiled whole: else each step is, for each shape
            return _arrays(cast(Ordered, jax.jit(init)(_word(seed))))

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Any]:
        """Return outputs and what `backward` needs; dropout is off when `seed` is None."""
        word = None if seed is None else _word(seed)
        with jax.enable_x64(True):
            outputs, saved = self._forward(
                self._convert_arrays(params), self._convert_arrays(inputs), word
            )
            return _arrays(outputs), saved

    def backward(self, params: Arrays, saved: object, d_outputs: Arrays) -> Arrays:
        """Return the gradients of all parameters and float inputs, keyed by name."""
        with jax.enable_x64(True):
            return _arrays(
                self._backward(self._convert_arrays(params), saved, self._convert_arrays(d_outputs))
            )

    @property
    def moved(self) -> Callable[[Arrays, object], Arrays] | None:
        """The function `moved` of the module, if it has running statistics."""
        move = getattr(self.module, "moved", None)
        if move is None:
            return None

        def moved(params: Arrays, saved: object) -> Arrays:
            with jax.enable_x64(True):
                return _arrays(move(self._convert_arrays(params), saved))

        return moved

    @cached_property
    def _forward(self) -> Callable[..., tuple[Ordered, object]]:
        def forward(params: Ordered, inputs: Ordered, seed: Any) -> tuple[Ordered, object]:  # noqa: ANN401
            outputs, saved = self.module.forward(params, inputs, seed=seed)
            return OrderedDict(outputs), saved

        return jax.jit(forward)

    @cached_property
    def _backward(self) -> Callable[..., Ordered]:
        def backward(params: Ordered, saved: object, d_outputs: Ordered) -> Ordered:
            return OrderedDict(self.module.backward(params, saved, d_outputs))

        return jax.jit(backward)

    def _convert_arrays(self, arrays: Arrays) -> Ordered:
        return OrderedDict(
            (name, self._convert_array(np.asarray(array))) for name, array in arrays.items()
        )

    def _convert_array(self, array: NDArray[Any]) -> NDArray[Any]:
        if self.dtype is None or not np.issubdtype(array.dtype, np.floating):
            return array
        return array.astype(jnp.dtype(self.dtype))


def _word(seed: int) -> np.uint64:
    if not hasattr(seed, "__index__"):
        raise TypeError(f"seed should be a whole number, not {str(seed)!r}")
    return np.uint64(int(seed) % 2**64)


def _arrays(arrays: Mapping[str, jax.Array]) -> Arrays:
    """Copy JAX arrays to writable NumPy arrays; bfloat16, which NumPy lacks, becomes float32."""
    half = jnp.bfloat16
    return {n: np.array(a, np.float32 if a.dtype == half else None) for n, a in arrays.items()}
