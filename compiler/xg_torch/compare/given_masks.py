"""The masks of a diagram's dropout, given to code that others wrote, where it drops.

Code that calls `torch.nn.functional.dropout`, as nn.Dropout does, gets the next mask of the diagram
that has the shape of its tensor. Code that drops in another way is refused, or found to be random.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime.errors import InputError
from xg_runtime.module import Array
from xg_torch.compare.agreeing import in_shape
from xg_torch.compare.flat_program import FlatEdge, FlatProgram

if TYPE_CHECKING:
    from torch import Tensor

WITHIN = "scaled_dot_product_attention"


@dataclass(frozen=True, eq=False)
class GivenMask:
    """The mask of one use of dropout: the edge that it makes, the part that goes, what it keeps."""

    edge: FlatEdge
    p: float
    keep: Array

    def __str__(self) -> str:
        return f"{self.edge} {list(self.keep.shape)}"


def masks_of(flat: FlatProgram) -> list[GivenMask]:
    """The masks of a run with a seed, in the order of its steps; raises InputError without any."""
    drops = [step for step in flat.steps if step.operator == "dropout"]
    found = [
        GivenMask(step.outputs[0], p, step.outputs[1].array)
        for step in drops
        if (p := step.attrs["p"].evaluate(step.record.sizes))
    ]
    if not found:
        raise InputError(f"--dropout: {flat.program.main.block} drops nothing")
    return found


@contextmanager
def dropping_by(masks: Sequence[GivenMask]) -> Generator[None]:
    """Let torch drop by these masks, each once, and by another one where none is left.

    A dropout too many or too few then shows in the numbers. Raises InputError for another p, and
    where torch drops inside of attention.
    """
    from torch.nn import functional

    left = list(masks)

    def dropout(
        input: Tensor,
        p: float = 0.5,
        training: bool = True,
        inplace: bool = False,
    ) -> Tensor:
        if not training or p == 0:
            return input
        keep = _next(left, tuple(input.shape), p)
        scaled = input.new_tensor(keep) / (1 - p)
        return input.mul_(scaled) if inplace else input * scaled

    def attention(*args: Any, **kwargs: Any) -> Tensor:  # noqa: ANN401 - as torch has it
        if kwargs.get("dropout_p", args[4] if len(args) > 4 else 0):
            raise InputError(
                f"the module drops inside of {WITHIN}, which takes no mask: compare it with "
                "dropout_p=0, and the diagram without that DO"
            )
        return whole(*args, **kwargs)

    whole: Any = getattr(functional, WITHIN)
    inside = mock.patch.object(functional, WITHIN, attention)
    with mock.patch.object(functional, "dropout", dropout), inside:
        yield


def _next(left: list[GivenMask], shape: tuple[int, ...], p: float) -> Array:
    """The next mask for a tensor, which is then used up; one of no use where there is none left.

    Raises InputError where the diagram drops another part of all that are left.
    """
    fitting = [mask for mask in left if in_shape(mask.keep, shape) is not None]
    for mask in fitting:
        if abs(mask.p - p) < 1e-12:
            left.remove(mask)
            found = in_shape(mask.keep, shape)
            assert found is not None
            return found
    if fitting:
        first = fitting[0]
        raise InputError(f"the module drops {p:g} of {first}, and the diagram {first.p:g}")
    return np.random.default_rng(0).random(shape) >= p  # it shows, the same in every run
