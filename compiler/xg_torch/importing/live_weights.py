"""The weights of a program in memory, read where they are: an archive of them would be two copies.

The program is saved with one number in the place of each. Tensors that NumPy does not read as they
are remain, and an archive reads or refuses them.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xg_torch.importing.archive import Archive, Array

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram


def without_weights(program: ExportedProgram) -> tuple[ExportedProgram, dict[str, Array]]:
    """The program with one number for each weight that can be read, and these weights by name.

    Weights that are one tensor remain one.
    """
    import torch

    state: dict[str, Tensor] = dict(program.state_dict)
    live: dict[str, Array] = {}
    stand_ins: dict[Any, Tensor] = {}
    for name, tensor in program.state_dict.items():
        if _is_plain(tensor):
            trained = isinstance(tensor, torch.nn.Parameter)
            place = tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), trained
            if place not in stand_ins:
                one = torch.zeros(1, dtype=tensor.dtype)
                stand_ins[place] = torch.nn.Parameter(one, requires_grad=False) if trained else one
            state[name] = stand_ins[place]
            live[name] = _array(tensor)
    lighter: Any = copy(program)
    lighter._state_dict = state  # the property has no setter
    return lighter, live


def with_weights(archive: Archive, live: Mapping[str, Array]) -> Archive:
    """The archive of such a program with the weights in the place of their numbers."""
    return replace(archive, arrays={**archive.arrays, **live})


def _is_plain(tensor: Tensor) -> bool:
    """Whether NumPy can read a tensor in the memory that it has."""
    import torch

    known = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool}
    known |= {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    return (
        type(tensor.data) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.dtype in known
        and tensor.numel() > 0
    )


def _array(tensor: Tensor) -> Array:
    import torch

    held = tensor.detach()
    return (held.float() if held.dtype == torch.bfloat16 else held).numpy()
