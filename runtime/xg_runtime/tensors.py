"""A generated torch module, used as one on arrays.

    module = OnArrays(generated)                        float32 and float64 as they come
    module = OnArrays(generated, dtype="bfloat16")      computed in bfloat16, which NumPy lacks

Arrays and tensors share their memory, so a step of training changes the one through the other.
Needs torch.
"""

from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import numpy as np
import torch
from numpy.typing import DTypeLike

from xg_runtime.held import Held
from xg_runtime.module import Array, Arrays, Later, Move, Saved, is_float, move_of

Tensors = dict[str, torch.Tensor]

_TYPES: Final = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


class TorchModule(Protocol):
    """`init`, `forward` and `backward` of one program, on tensors."""

    def init(self, seed: int = 0, dtype: torch.dtype = ...) -> Tensors:
        """Return the parameters by their diagram names."""
        ...

    def forward(
        self, params: Tensors, inputs: Tensors, *, seed: int | None = None
    ) -> tuple[Tensors, Saved]:
        """Return outputs and what `backward` needs; dropout is off when `seed` is None."""
        ...

    def backward(self, params: Tensors, saved: Saved, d_outputs: Tensors) -> Tensors:
        """Return the gradients of all parameters and float inputs, keyed by name."""
        ...


@dataclass(frozen=True)
class OnArrays:
    """The module on arrays; `dtype` is the type that floats are computed in, if not their own."""

    module: TorchModule
    dtype: str | None = None

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32, **sizes: int) -> Arrays:
        """Return the parameters by their diagram names."""
        float_type = _TYPES[np.dtype(dtype).name]
        return _arrays(self.module.init(seed, float_type, **sizes))

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        """Return outputs and what `backward` needs; dropout is off when `seed` is None."""
        outputs, saved = self.module.forward(
            self._tensors(params), self._tensors(inputs), seed=seed
        )
        return _arrays(outputs), saved

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        """Return the gradients of all parameters and float inputs, keyed by name."""
        tensors = self.module.backward(self._tensors(params), saved, self._tensors(d_outputs))
        return _arrays(tensors)

    @property
    def moved(self) -> Move | None:
        """The function `moved` of the module, if it has running statistics."""
        move: Any = move_of(self.module)
        if move is None:
            return None
        return lambda params, saved: _arrays(move(self._tensors(params), saved))

    def backward_in_parts(
        self,
        params: Arrays,
        saved: Saved,
        d_outputs: Arrays,
        later: Later | None,
    ) -> Arrays:
        """Return the gradients of inputs; those of parameters fill in as `later` is called."""
        given = self._tensors(params), saved, self._tensors(d_outputs), later
        tensors = cast(Any, self.module).backward_in_parts(*given)
        found = _arrays(tensors)
        if later is not None:
            first = set(found)

            def rest() -> None:
                found.update(_arrays({n: t for n, t in tensors.items() if n not in first}))

            later.append(rest)
        return found

    def _tensors(self, arrays: Arrays) -> Tensors:
        tensors = {name: self._tensor(array) for name, array in arrays.items()}
        return Held(tensors, arrays.wholes) if isinstance(arrays, Held) else tensors

    def _tensor(self, array: Array) -> torch.Tensor:
        tensor = torch.as_tensor(np.asarray(array))
        return tensor.to(_TYPES[self.dtype]) if self.dtype and is_float(array) else tensor


class TorchStep(Protocol):
    """`empty_cache` and `step` of one program, on tensors."""

    def empty_cache(self, params: Tensors) -> Tensors:
        """Return the cache before the first step."""
        ...

    def step(self, params: Tensors, cache: Tensors, inputs: Tensors) -> tuple[Tensors, Tensors]:
        """Return the outputs at the new positions, and the cache with them."""
        ...


@dataclass(frozen=True)
class StepOnArrays:
    """The step of a generated torch module on arrays; its cache stays in tensors."""

    module: TorchStep

    def empty_cache(self, params: Arrays) -> Tensors:
        """Return the cache before the first step."""
        return self.module.empty_cache(_tensors(params))

    def step(self, params: Arrays, cache: Tensors, inputs: Arrays) -> tuple[Arrays, Tensors]:
        """Return the outputs at the new positions, and the cache with them."""
        outputs, tensors = self.module.step(_tensors(params), cache, _tensors(inputs))
        return _arrays(outputs), tensors


def _tensors(arrays: Arrays) -> Tensors:
    return {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}


def _arrays(tensors: Tensors) -> Arrays:
    return {name: _array(tensor) for name, tensor in tensors.items()}


def _array(tensor: torch.Tensor) -> Array:
    """Return the array of a tensor; every bfloat16 is a float32."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
