"""A call that is made once for each position of an axis: recurrences, and maps over an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg.ir.tensor import Shape, TensorType


@dataclass(frozen=True, slots=True)
class Loop:
    """How a looped call takes its operands apart and puts its results together.

    It makes `length` rounds with the same parameters, the last position first if `reverse`.
    `inputs` has for every input the axis of which round i is given position i, counted from the
    end; `outputs` for every output the axis along which the rounds' results are stacked. None is an
    input that all rounds share, and the output of the last round. The last `states` inputs and
    outputs go round: what a round leaves there is what the next one is given.
    """

    length: Dim
    reverse: bool
    inputs: tuple[int | None, ...] = ()
    outputs: tuple[int | None, ...] = ()
    states: int = 0


def without(type_: TensorType, axis: int | None) -> TensorType:
    """The type of one position along an axis counted from the end; of None the type itself."""
    if axis is None:
        return type_
    shape = list(type_.shape)
    del shape[axis]
    return TensorType(tuple(shape), type_.range)


def stacked(type_: TensorType, axis: int | None, length: Dim) -> TensorType:
    """The type of `length` results along an axis of the result, counted from the end."""
    if axis is None:
        return type_
    place = len(type_.shape) + 1 + axis
    shape: Shape = (*type_.shape[:place], length, *type_.shape[place:])
    return TensorType(shape, type_.range)


def meant_axis(named: Sequence[str | None], shape: Sequence[Dim], along: int) -> Dim | None:
    """The axis that a loop was likely meant to go over.

    It goes `along` an axis that a port names among the axes of a round; without another one the
    operand's `shape` has the port's names.
    """
    if None in named or shape[along].name not in named:
        return None
    for place, dim in enumerate(shape, -len(shape)):
        rest = [other.name for at, other in enumerate(shape, -len(shape)) if at != place]
        if place != along and rest == [*named]:
            return dim
    return None
