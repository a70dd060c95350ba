"""Tensors that one process sends to another: kind, shape and content in one message, or in two.

Who receives a message has to say beforehand how long it is. Both ends remember the messages between
them: behind two of one length all are expected to have it, until two others are equal. The content
of one that has it travels with its head; else it comes behind, for the head says how long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist

from xg_runtime.ranks.array_ops import Tensor, is_array, type_name
from xg_runtime.ranks.backend import CARRIERS, cast_result, flat, wait_for_work

_dist: Any = dist  # much of it has no annotations

_NAMES: Final = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
_HEAD: Final = 16  # numbers in front of what is sent: its kind and its shape
_BYTES: Final = 8 * _HEAD


@dataclass(slots=True)
class Lengths:
    """The lengths in bytes of what one process sends to another: the last, and that expected."""

    last: int = 0
    expected: int = 0

    def note(self, length: int) -> None:
        """Take one more into account."""
        if length == self.last:
            self.expected = length
        self.last = length


def send(x: Tensor, target: int, device: str, lengths: Lengths) -> list[tuple[Any, torch.Tensor]]:
    """Begin to send a tensor, which may change afterwards: torch's handles, and what must live."""
    given = flat(x, device, copy=False)
    content = given.view(torch.uint8)
    kind = [int(is_array(x)), _NAMES.index(type_name(x.dtype)), len(x.shape), *x.shape]
    head = torch.tensor([*kind, *[0] * (_HEAD - len(kind))], device=device).view(torch.uint8)
    length, expected = content.numel(), lengths.expected
    lengths.note(length)
    if length == expected:
        parts = [torch.cat([head, content])]
    else:
        parts = [torch.cat([head, head.new_zeros(expected)])]
        parts += [content.clone()] if length else []
    return [(_dist.isend(part, target), part) for part in parts]


def receive(source: int, device: str, timeout: float, lengths: Lengths) -> Tensor:
    """Wait for the next tensor from a process, which is an array if it was one there."""
    expected = lengths.expected
    message = torch.empty(_BYTES + expected, dtype=torch.uint8, device=device)
    wait_for_work(_dist.irecv(message, source), device, timeout)
    array, name, axes, *rest = map(int, message[:_BYTES].view(torch.int64).cpu().numpy())
    shape, dtype = tuple(rest[:axes]), getattr(torch, _NAMES[name])
    carrier = CARRIERS.get(dtype) or dtype
    length = prod(shape) * carrier.itemsize
    lengths.note(length)
    content = message[_BYTES:]
    if length != expected:
        content = message.new_empty(length)
        if length:
            wait_for_work(_dist.irecv(content, source), device, timeout)
    given = content.view(carrier).view(shape)
    return cast_result(given, np.dtype(_NAMES[name]) if array else dtype)
