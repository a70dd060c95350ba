"""A generated torch module, used as one on arrays.

    module = OnArrays(generated)                        float32 and float64 as they come
    module = OnArrays(generated, dtype="bfloat16")      computed in bfloat16, which NumPy lacks
    module = OnArrays(generated, device="cuda")         computed on a GPU
    module = OnArrays(generated, autocast="bfloat16")   products alone in bfloat16

Without a device arrays and tensors share their memory, so a step of training changes the one
through the other. Needs torch.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import numpy as np
import torch
from numpy.typing import DTypeLike

from xg_runtime.held import Held
from xg_runtime.module import Array, Arrays, Later, Move, Saved, is_float, move_of

Tensors = dict[str, torch.Tensor]
_TYPES: Final = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


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
    """The module on arrays; `dtype` is the type that floats are computed in, if not their own.

    `autocast` is the type of products, as `torch.autocast` has it; `device` is where it computes.
    """

    module: TorchModule
    dtype: str | None = None
    device: str | None = None
    autocast: str | None = None

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32, **sizes: int) -> Arrays:
        """Return the parameters by their diagram names."""
        float_type = _TYPES.get(np.dtype(dtype).name)
        if float_type is None:
            raise TypeError(f"dtype should be a type of floats, not {np.dtype(dtype)}")
        return as_arrays(self.module.init(seed, float_type, **sizes))

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        """Return outputs and what `backward` needs; dropout is off when `seed` is None."""
        with self.context():
            outputs, saved = self.module.forward(
                self.tensors(params), self.tensors(inputs), seed=seed
            )
        return as_arrays(outputs), saved

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        """Return the gradients of all parameters and float inputs, keyed by name."""
        kept = [saved]
        del saved  # the pass alone keeps it, and frees what it has read
        with self.context():
            tensors = self.module.backward(
                self.tensors(params), kept.pop(), self.tensors(d_outputs)
            )
        return as_arrays(tensors)

    @property
    def moved(self) -> Move | None:
        """The function `moved` of the module, if it has running statistics."""
        move: Any = move_of(self.module)
        if move is None:
            return None
        return lambda params, saved: as_arrays(move(self.tensors(params), saved))

    def backward_in_parts(
        self,
        params: Arrays,
        saved: Saved,
        d_outputs: Arrays,
        later: Later | None,
        earlier: Arrays | None = None,
    ) -> Arrays:
        """Return input gradients; parameter gradients fill in when the calls in `later` run.

        The module adds them to those of `earlier`, one by one as they come; but in bfloat16 the
        arrays are added, which are float32.
        """
        kept, module, sums = [saved], cast(Any, self.module), self.dtype != "bfloat16"
        del saved
        found = earlier if isinstance(earlier, _Summed) else _Summed()
        if sums:
            found.leave(params)
        before = found.tensors if sums else None
        given, cotangents = self.tensors(params), self.tensors(d_outputs)
        with self.context():
            tensors = module.backward_in_parts(given, kept.pop(), cotangents, later, before)
        found.tensors = tensors
        found.add({name: tensors.pop(name) for name in [*tensors] if name not in params})
        put = found.put if sums else found.add
        put(tensors)
        if later is not None:
            first: set[str] = set() if sums else {*tensors}
            later.append(lambda: put({n: t for n, t in tensors.items() if n not in first}))
        return found

    def context(self) -> AbstractContextManager[Any]:
        """The context of a pass: autocast, or none."""
        if self.autocast is None:
            return nullcontext()
        kind = torch.device(self.device or "cpu").type
        return torch.autocast(kind, _TYPES[self.autocast])

    def tensors(self, arrays: Arrays) -> Tensors:
        """Return arrays as tensors where the module computes."""
        tensors = {name: self._tensor(array) for name, array in arrays.items()}
        return Held(tensors, arrays.wholes) if isinstance(arrays, Held) else tensors

    def _tensor(self, array: Array) -> torch.Tensor:
        tensor = torch.as_tensor(np.asarray(array), device=self.device)
        return tensor.to(_TYPES[self.dtype]) if self.dtype and is_float(array) else tensor


class _Summed(Arrays):
    """The arrays of gradients that are summed over passes; `tensors` are the module's own."""

    tensors: Tensors | None = None

    def leave(self, names: Iterable[str]) -> None:
        """Keep no array of these names: a tensor that shares its memory is to be freed."""
        for name in names:
            self.pop(name, None)

    def put(self, tensors: Tensors) -> None:
        """Take the arrays of tensors that are sums already."""
        self.update(as_arrays(tensors))

    def add(self, tensors: Tensors) -> None:
        """Add each tensor, as an array, to the sum of the same name."""
        for name, array in as_arrays(tensors).items():
            self[name] = self[name] + array if name in self else array


def has_gpu() -> bool:
    """Return whether torch finds a GPU that it can use."""
    return torch.cuda.is_available()


class TorchStep(Protocol):
    """`empty_cache` and `step` of one program, on tensors."""

    def empty_cache(self, params: Tensors, **sizes: int) -> Tensors:
        """Return the cache before the first step, for a number of texts and other free sizes."""
        ...

    def step(self, params: Tensors, cache: Tensors, inputs: Tensors) -> tuple[Tensors, Tensors]:
        """Return the outputs at the new positions, and the cache with them."""
        ...


@dataclass(frozen=True)
class StepOnArrays:
    """The step of a generated torch module on arrays; its cache stays in tensors.

    On a device parameters stay, too, and so do those that a module with kernels has `prepared`:
    another dictionary is other parameters.
    """

    module: TorchStep
    device: str | None = None
    _placed: list[tuple[Arrays, Tensors]] = field(default_factory=list[tuple[Arrays, Tensors]])

    def empty_cache(self, params: Arrays, **sizes: int) -> Tensors:
        """Return the cache before the first step, for a number of texts and other free sizes."""
        return self.module.empty_cache(self._params(params), **sizes)

    def step(self, params: Arrays, cache: Tensors, inputs: Arrays) -> tuple[Arrays, Tensors]:
        """Return the outputs at the new positions, and the cache with them."""
        given = self._params(params), cache, _tensors(inputs, self.device)
        outputs, tensors = self.module.step(*given)
        return as_arrays(outputs), tensors

    def _params(self, params: Arrays) -> Tensors:
        ready: Callable[[Tensors], Tensors] | None = getattr(self.module, "prepared", None)
        if self.device is None and ready is None:
            return _tensors(params, None)
        if not self._placed or self._placed[0][0] is not params:
            tensors = _tensors(params, self.device)
            self._placed[:] = [(params, ready(tensors) if ready else tensors)]
        return self._placed[0][1]


def _tensors(arrays: Arrays, device: str | None) -> Tensors:
    return {n: torch.as_tensor(np.asarray(array), device=device) for n, array in arrays.items()}


def as_arrays(tensors: Tensors) -> Arrays:
    """Return the arrays of tensors, wherever they are."""
    return {name: _array(tensor) for name, tensor in tensors.items()}


def _array(tensor: torch.Tensor) -> Array:
    """Return the array of a tensor; every bfloat16 is a float32."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).cpu().numpy()
