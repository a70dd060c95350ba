"""Messages between processes: batches of sends and receives, and the head that tells a form.

A receiver has to give a buffer of the right length before a message comes. Only the first message
of a step on each way has a head before it, of a fixed length: to read it, the receiver waits for
the device. All later ones have the form of the first, so that nothing waits to learn it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist

from xg_runtime.ranks.array_ops import Tensor
from xg_runtime.ranks.backend import CARRIERS, cast_result, flat
from xg_runtime.ranks.call import SENT_TYPES, Form

_dist: Any = dist  # much of it has no annotations

_HEAD: Final = 16  # numbers: whether an array, its type, how many axes it has, and its shape


@dataclass(frozen=True, slots=True)
class Post:
    """One message of a batch: its bytes, or the room for them, and torch's number of a rank."""

    peer: int
    content: torch.Tensor
    is_send: bool


def post(batch: Sequence[Post], group: object) -> list[Any]:
    """Post messages at once; return a handle for each.

    NCCL runs the sends and receives of one call in one kernel, where they don't wait for each
    other; separate calls run one after the other. It gives one handle for all of them.
    """
    if not batch:
        return []
    calls = [
        _dist.P2POp(_dist.isend if each.is_send else _dist.irecv, each.content, each.peer, group)
        for each in batch
    ]
    works: list[Any] = _dist.batch_isend_irecv(calls)
    return works if len(works) == len(batch) else [works[0]] * len(batch)


def head(form: Form, device: str) -> torch.Tensor:
    """Write a form in a message of fixed length."""
    kind = [int(form.is_array), SENT_TYPES.index(form.dtype), len(form.shape), *form.shape]
    return torch.tensor([*kind, *[0] * (_HEAD - len(kind))], device=device)


def empty_head(device: str) -> torch.Tensor:
    """Return the room for a head."""
    return torch.empty(_HEAD, dtype=torch.int64, device=device)


def read_head(message: torch.Tensor) -> Form:
    """Read the form in a head; this waits until the device is done."""
    is_array, dtype, axes, *rest = map(int, message.cpu().numpy())
    return Form(tuple(rest[:axes]), SENT_TYPES[dtype], bool(is_array))


def packed(x: Tensor, device: str) -> torch.Tensor:
    """Return a copy of a tensor as bytes."""
    return flat(x, device, copy=True).view(torch.uint8)


def room(form: Form, device: str) -> torch.Tensor:
    """Return the room for the bytes of a tensor."""
    length = prod(form.shape) * _carrier(form).itemsize
    return torch.empty(length, dtype=torch.uint8, device=device)


def unpacked(content: torch.Tensor, form: Form) -> Tensor:
    """Return the tensor that came, which is an array if it was one there."""
    dtype = np.dtype(form.dtype) if form.is_array else getattr(torch, form.dtype)
    return cast_result(content.view(_carrier(form)).view(form.shape), dtype)


def _carrier(form: Form) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, form.dtype)
    return CARRIERS.get(dtype, dtype)
