"""The collectives of torch.distributed, on flat buffers.

Its backends fail, or worse, on tensors that are strided, expanded, without axes, or stacked; a flat
buffer of one's own is none of that. Only SUM and MAX are used: AVG is not there for every type,
and what it means is not the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from xg_runtime.module import Array
from xg_runtime.ranks.array_ops import Tensor, is_array
from xg_runtime.ranks.exchanges import shift_into, shifted, sum_of_slices

_dist: Any = dist  # much of it has no annotations

# torch 2.13 has new names for these two, and warns of the old ones.
all_gather: Any = getattr(dist, "all_gather_single", None) or _dist.all_gather_into_tensor
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or _dist.reduce_scatter_tensor

# Types that gloo does not know, and what they travel as; sums modulo 2ⁿ stay what they are.
CARRIERS = {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
}


def flat(x: Tensor, device: str, *, copy: bool) -> torch.Tensor:
    """An array or tensor in one axis, of a type that can be sent; a copy where one is wanted."""
    if is_array(x):
        owned = copy or not x.flags.writeable  # torch warns of arrays that it may not change
        array: Array = np.array(x, order="C", copy=owned or None)
        tensor = torch.as_tensor(array.reshape(-1)).to(device)
    else:
        form = torch.contiguous_format
        tensor = x.detach().to(device, copy=copy, memory_format=form).reshape(-1)
    return tensor.to(CARRIERS.get(tensor.dtype, tensor.dtype))


@dataclass(frozen=True, slots=True)
class TorchGroup:
    """A process group of torch's, as `kinds.Group` describes it; what is given is used up."""

    group: object

    def total(self, given: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begin a sum."""
        return self._reduce(given, dist.ReduceOp.SUM), given

    def largest(self, given: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begin a maximum."""
        return self._reduce(given, dist.ReduceOp.MAX), given

    def _reduce(self, given: torch.Tensor, op: object) -> Any:  # noqa: ANN401 - torch names no type
        return _dist.all_reduce(given, op=op, group=self.group, async_op=True)

    def gather(self, given: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begin to gather; `given` is copied to its place in the result, and stays as it is."""
        ranks, rank = _dist.get_world_size(self.group), _dist.get_rank(self.group)
        result = given.new_empty(given.numel() * ranks)
        slices = result.view(ranks, -1)
        own = slices[rank].copy_(given)
        if ranks == 2 and given.device.type == "cpu":
            return shift_into(slices[1 - rank], own, self.group), result
        return all_gather(result, own, group=self.group, async_op=True), result

    def total_of_slices(self, given: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begin a sum that leaves each process with its slice."""
        if given.device.type == "cpu":
            return sum_of_slices(given, self.group)
        result = given.new_empty(given.numel() // _dist.get_world_size(self.group))
        op = dist.ReduceOp.SUM
        return _reduce_scatter(result, given, op=op, group=self.group, async_op=True), result

    def exchange(self, given: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begin an exchange of slices."""
        result = torch.empty_like(given)
        return _dist.all_to_all_single(result, given, group=self.group, async_op=True), result

    def shift(self, given: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begin to send to the next process, and to receive from the one before."""
        return shifted(given, self.group)


def cast_result(result: torch.Tensor, dtype: object) -> Tensor:
    """The result as a tensor of a type of torch's, or as an array of one of NumPy's."""
    if isinstance(dtype, torch.dtype):
        return result.to(dtype)
    kind: Any = dtype
    return result.cpu().numpy().astype(kind, copy=False)


def wait_for_work(work: Any, device: str, timeout: float) -> None:  # noqa: ANN401 - torch names no type
    """Wait for a handle of torch's; on a GPU, let what is computed next wait for it."""
    if device == "cpu":
        work.wait(timedelta(seconds=timeout))
    else:
        work.wait()


def make_group(
    members: Sequence[int], name: str, device: str, timeout: float, backend: str | None = None
) -> Any:  # noqa: ANN401 - torch names no type
    """Make this process's group of a communicator; every process makes one at the same time.

    By default all processes make every group, and torch names groups by their number. Here the
    groups of a communicator share all ranks among them, so each rank only makes its own, and torch
    names it by its members: a mesh of 512 ranks takes three calls instead of hundreds.

    gloo connects the members now. NCCL does so in the first collective, and waits there for all of
    them: stages of a pipeline, which begin with different ones, could wait for each other. So the
    members meet here, where all ranks make their groups in one order.
    """
    limit = timedelta(seconds=timeout)
    group = _dist.new_group(
        list(members),
        timeout=limit,
        backend=backend,
        use_local_synchronization=True,
        group_desc=f"{name}: {', '.join(map(str, members))}",
    )
    if device == "cuda" and backend is None:
        meet(device, timeout, group)
    return group


def meet(device: str, timeout: float, group: object = None) -> None:
    """Wait until all processes of a group, by default all there are, have come here."""
    nothing = torch.zeros(1, device=device)
    wait_for_work(_dist.all_reduce(nothing, group=group, async_op=True), device, timeout)
    nothing.cpu()
