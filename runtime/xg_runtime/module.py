"""The shape of a generated module, and the types its arrays travel in.

A generated module is an ordinary Python module with three
functions. Dicts are keyed by the diagram's ASCII names; arrays are float32 or float64, ids integer.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["Module", "StageModule", "Array", "Arrays", "Saved", "Later"]

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]
Saved: TypeAlias = Any  # every module has its own type for what its backward needs
Later: TypeAlias = list[Callable[[], None]]  # the parts of backward passes that are still to run


class Module(Protocol):
    """`init`, `forward` and `backward` of one program."""

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32) -> Arrays:
        """Return the parameters by their names in the diagram, in ASCII: γ is `gamma`.

        Sizes that parameters have are further keywords: `init(D=8)`. One without a number in the
        file has to be given; `forward` reads it off the arrays.
        """
        ...

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        """Return outputs and what `backward` needs; dropout is off when `seed` is None."""
        ...

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        """Return the gradients of all parameters and float inputs, keyed by name."""
        ...


Move: TypeAlias = Callable[[Arrays, Saved], Arrays]


def move_of(module: object) -> Move | None:
    """Return the function `moved` of a module with running statistics, else None.

    Of parameters and what `forward` saved it gives the statistics after a batch, by their names.
    """
    return getattr(module, "moved", None)


class StageModule(Module, Protocol):
    """The module of a stage of a pipeline, which may leave gradients of parameters for later."""

    def backward_in_parts(
        self,
        params: Arrays,
        saved: Saved,
        d_outputs: Arrays,
        later: Later | None,
        earlier: Arrays | None = None,
    ) -> Arrays:
        """Return input gradients; parameter gradients fill in when the calls in `later` run.

        Without a list they are there at once, as `backward` gives them. They are added to those
        of `earlier`, which is what an earlier call has returned; the sum is returned again.
        """
        ...


def is_float(array: Array) -> bool:
    """Return whether `array` can carry a gradient."""
    return bool(np.issubdtype(array.dtype, np.floating))


def in_type(arrays: Arrays, dtype: DTypeLike | None) -> Arrays:
    """Return arrays whose floats have a type, since a module refuses two; None keeps their own."""
    if dtype is None:
        return arrays
    return {n: x.astype(dtype, copy=False) if is_float(x) else x for n, x in arrays.items()}
