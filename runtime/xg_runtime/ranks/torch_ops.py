"""The words of `xg_runtime.ranks.array_ops` for torch tensors; imported where there are some."""

from __future__ import annotations

import torch
from torch import Tensor


class TorchOps:
    """Everything without a gradient: the backward pass of rank code is code."""

    def contiguous_copy(self, x: Tensor) -> Tensor:
        """Return a copy, contiguous."""
        return x.detach().clone(memory_format=torch.contiguous_format)

    def stack(self, parts: list[Tensor]) -> Tensor:
        """Return the parts along a new leading axis."""
        return torch.stack(parts)

    def join(self, parts: list[Tensor], axis: int) -> Tensor:
        """Return the parts one after the other along an axis."""
        return torch.cat(parts, axis)

    def flat(self, parts: list[Tensor]) -> Tensor:
        """Return all elements of all parts, one after the other."""
        return torch.cat([part.reshape(-1) for part in parts])

    def move(self, x: Tensor, source: int, target: int) -> Tensor:
        """Return `x` with one axis at another place."""
        return x.movedim(source, target)

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the larger of two, element by element."""
        return torch.maximum(a, b)

    def zeros(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return zeros of the type, and on the device, of `like`."""
        return like.new_zeros(shape)

    def where(self, mask: Tensor, a: Tensor) -> Tensor:
        """Return `a` where the mask holds, else 0."""
        return torch.where(mask, a, a.new_zeros(()))
