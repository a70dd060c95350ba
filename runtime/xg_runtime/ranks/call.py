"""One collective as every rank of a group has to call it, or one send as its ends have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from xg_runtime.errors import InputError
from xg_runtime.ranks.array_ops import Tensor, is_array, type_name
from xg_runtime.ranks.kinds import Kind

# The element types that ranks can send; a head gives the index of one.
SENT_TYPES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")


@dataclass(frozen=True, slots=True)
class Call:
    """Kind, mesh axis, shape and element type of this rank's operand.

    `along` are the tensor's axes that are joined and cut, counted from the end: they do not reach
    the mesh, but ranks that differ in them would join different things.
    """

    kind: Kind
    axis: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    along: tuple[int, ...] = ()

    def payload(self, ranks: int) -> int:
        """Count the elements of what is given, or of the result if that is larger."""
        return math.prod(self.shape) * (ranks if self.kind.grows else 1)

    def __str__(self) -> str:
        along = f" along {', '.join(map(str, self.along))}" if self.along else ""
        return f"{self.kind.name} over {self.axis} of {self.dtype} {list(self.shape)}{along}"


@dataclass(frozen=True, slots=True)
class Form:
    """The properties of a tensor that its receiver has to know before it comes."""

    shape: tuple[int, ...]
    dtype: str
    is_array: bool

    @classmethod
    def of(cls, x: Tensor) -> Form:
        """Return the form of a tensor; raises InputError for a type that is not sent."""
        dtype = type_name(x.dtype)
        if dtype not in SENT_TYPES:
            raise InputError(f"a rank sends {', '.join(SENT_TYPES)} to another; found {dtype}")
        return cls(tuple(x.shape), dtype, is_array(x))

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A tensor for the rank at a place along an axis.

    All messages to one rank under one `name` have the same form. The message that `opens` the name
    also sends the form, for which its receiver has to wait. Later messages don't need this.
    """

    x: Tensor
    place: int
    name: str
    opens: bool = False


@dataclass(frozen=True, slots=True)
class Incoming:
    """A tensor from the rank at a place along an axis, of the form of `like` if this is known."""

    place: int
    name: str
    opens: bool = False
    like: Tensor | None = None
