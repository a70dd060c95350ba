"""One rank of the parallel benchmark: the contestants, and what they send."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from math import prod
from time import perf_counter
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.profiler import ProfilerActivity, profile

import xg
from bench.contestants import FILE, Task
from bench.torch_transformer import LM, Layer
from xg_runtime import ranks
from xg_runtime.ranks.process_mesh import ProcessMesh

WARM: Final = 3
STEPS: Final = 5  # in a turn
SENT: Final = (
    *("gloo:all_reduce", "gloo:allreduce", "gloo:all_gather", "gloo:_all_gather"),
    *("gloo:reduce_scatter", "gloo:_reduce_scatter"),
)
Step = Callable[[], object]


def run(rank: int, size: int, port: int, task: Task, rounds: int) -> dict[str, dict[str, Any]]:
    """Times of all contestants, and what a step of each sends."""
    store = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    torch.set_num_threads(1)
    try:
        steps: dict[str, Step] = {
            "xg DP": _generated(task, "DP", "N_D", size, rank),
            "torch DDP": _ddp(task, size, rank),
            "xg TP": _generated(task, "TP", "N_T", size, rank),
            "torch TP": _dtensor(task, size),
            "xg FSDP": _generated(task, "FSDP", "N_D", size, rank),
            "torch fully_shard": _fully_sharded(task, size, rank, again=True),
            "xg ZeRO2": _generated(task, "ZeRO2", "N_D", size, rank),
            "torch fully_shard, kept": _fully_sharded(task, size, rank, again=False),
        }
        found: dict[str, dict[str, Any]] = {}
        for name, step in steps.items():
            for _ in range(WARM):
                step()
            count, sent = _sent(step)
            found[name] = {"seconds": [], "collectives": count, "bytes": sent}
        for _ in range(rounds):
            for name, step in steps.items():
                found[name]["seconds"].append(_turn(step))
        return found
    finally:
        dist.destroy_process_group()


def _turn(step: Step) -> float:
    dist.barrier()
    start = perf_counter()
    for _ in range(STEPS):
        step()
    dist.barrier()
    return (perf_counter() - start) / STEPS


def _sent(step: Step) -> tuple[int, int]:
    """Collectives of a step, and the bytes of their payloads."""
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        step()
    count = total = 0
    for event in seen.events() or []:
        if event.name.startswith(SENT):
            count += 1
            total += sum(prod(shape) for shape in event.input_shapes if shape) * 4
    return count, total


# ---- contestants --------------------------------------------------------------------------------


def _mesh(axis: str, size: int) -> DeviceMesh:
    return init_device_mesh("cpu", (size,), mesh_dim_names=(axis,))


def _generated(task: Task, plan: str, axis: str, size: int, rank: int) -> Step:
    settings = {**task.sizes, "S_max": task.length}
    module = xg.compile(FILE, sizes=settings, plan=plan, mesh={axis: size}).load(
        "torch", kernels=True
    )
    mesh = ProcessMesh(_mesh(axis, size))
    whole = {name: torch.from_numpy(array) for name, array in task.params().items()}
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    with mesh:
        params = ranks.local_shards(whole, module.cuts())
        inputs = ranks.local_shards({"ids": ids, "t": targets}, module.cuts())
    one = {"loss": torch.ones(())}

    def step() -> object:
        with mesh:
            outputs, saved = module.forward(params, inputs)
            return outputs["loss"], module.backward(params, saved, one)

    return step


def _model(task: Task) -> LM:
    model = LM({**task.sizes, "S_max": task.length}, "sdpa").float()
    model.load(task.params())
    return model


def _ddp(task: Task, size: int, rank: int) -> Step:
    model = torch.nn.parallel.DistributedDataParallel(_model(task))
    ids, targets = (torch.from_numpy(tokens).chunk(size)[rank] for tokens in task.tokens())
    return _stepped(model, ids, targets)


def _fully_sharded(task: Task, size: int, rank: int, *, again: bool) -> Step:
    model, mesh = _model(task), _mesh("N_D", size)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=again)
    fully_shard(model, mesh=mesh)
    ids, targets = (torch.from_numpy(tokens).chunk(size)[rank] for tokens in task.tokens())
    return _stepped(model, ids, targets)


def _dtensor(task: Task, size: int) -> Step:
    model, mesh = _model(task), _mesh("N_T", size)
    for layer in model.layers:
        assert isinstance(layer, Layer)
        layer.attn.heads //= size
        columns = dict.fromkeys(("attn.Q", "attn.K", "attn.V", "up"), ColwiseParallel())
        rows = dict.fromkeys(("attn.O", "down"), RowwiseParallel())
        parallelize_module(layer, mesh, {**columns, **rows})
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    return _stepped(model, ids, targets)


def _stepped(model: torch.nn.Module, ids: torch.Tensor, targets: torch.Tensor) -> Step:
    known = list(model.parameters())

    def step() -> object:
        loss = model(ids, targets)
        loss.backward()
        grads = [parameter.grad for parameter in known]
        for parameter in known:
            parameter.grad = None
        return loss.detach(), grads

    return step
