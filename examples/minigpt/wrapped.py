"""The model of minigpt.py as ranks take it: each builds its own, and torch wraps it.

    xg compare diagrams/models/transformer.xg --module examples/minigpt/wrapped.py:replicated \
        --plan DP --map examples/minigpt/minigpt.names.toml
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

import torch.distributed as dist
from minigpt import MiniGPT, build
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel


def replicated() -> nn.Module:
    """The whole model on every rank; gradients are averaged."""
    return DistributedDataParallel(build())


def alone() -> nn.Module:
    """An error: the whole model on every rank, and its gradients are not summed."""
    return build()


def sharded() -> nn.Module:
    """A part of every parameter on each rank, gathered where a layer needs it."""
    model = build()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def divided() -> MiniGPT:
    """The heads and hidden units of a rank, as torch's tensor parallelism cuts them."""
    model, mesh = build(), init_device_mesh("cpu", (dist.get_world_size(),))
    columns = ("attention.q", "attention.k", "attention.v", "up")
    rows = ("attention.out", "down")
    for layer in model.layers:
        attention: Any = layer.attention
        attention.heads //= mesh.size()
        plan: dict[str, ParallelStyle] = {name: ColwiseParallel() for name in columns}
        plan |= {name: RowwiseParallel() for name in rows}
        parallelize_module(layer, mesh, plan)
    return model
