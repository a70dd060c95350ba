"""One rank of the parallel benchmark: the contestants, what they send and what they hold."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from time import perf_counter
from typing import Any, Final, cast

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from bench import rank_generated, rank_torch
from bench.contestants import Task
from bench.rank_generated import generated
from bench.rank_torch import Step
from bench.turns import torch_peak

WARM: Final = 3
STEPS: Final = 5  # in a turn
PEAKS: Final = 20
SENT: Final = (
    *("gloo:all_reduce", "gloo:allreduce", "gloo:all_gather", "gloo:_all_gather"),
    *("gloo:reduce_scatter", "gloo:_reduce_scatter", "gloo:all_to_all", "gloo:send"),
)
BYTES: Final = {"float": 4, "unsigned char": 1, "long int": 8}  # by the names of the profiler
MAKERS: Final[Mapping[str, Callable[[Task, int, int], Step]]] = {
    "xg DP": lambda task, size, _: generated(task, "DP", "N_D", size),
    "torch DDP": rank_torch.ddp,
    "xg TP": lambda task, size, _: generated(task, "TP", "N_T", size),
    "torch TP": rank_torch.tensor_parallel,
    "xg SP × VP": lambda task, size, _: generated(task, "SP_VP", "N_T", size),
    "torch SP × VP": rank_torch.sequence_parallel,
    "xg FSDP": lambda task, size, _: generated(task, "FSDP", "N_D", size),
    "torch fully_shard": partial(rank_torch.fully_sharded, again=True),
    "xg ZeRO2": lambda task, size, _: generated(task, "ZeRO2", "N_D", size),
    "torch fully_shard, kept": partial(rank_torch.fully_sharded, again=False),
    "xg PP": rank_generated.pipelined,
    "torch 1F1B": rank_torch.pipelined,
    "xg Ring": lambda task, size, _: generated(task, "Ring", "N_S", size),
    "torch ring": partial(rank_torch.context_parallel, balanced=False),
    "xg Zigzag": lambda task, size, _: generated(task, "Zigzag", "N_S", size),
    "torch ring, balanced": partial(rank_torch.context_parallel, balanced=True),
}


def run(
    rank: int, size: int, port: int, task: Task, names: Iterable[str], rounds: int
) -> dict[str, dict[str, Any]]:
    """Losses, times and peaks of all contestants, and what a step of each sends."""
    store = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size)
    torch.set_num_threads(1)
    try:
        steps = {name: MAKERS[name](task, size, rank) for name in names}
        found: dict[str, dict[str, Any]] = {}
        for name, step in steps.items():
            for _ in range(WARM):
                step()
            count, sent = _sent(step)
            found[name] = {
                "loss": _over_ranks(float(step()[0]), dist.ReduceOp.SUM) / size,
                "peak": _over_ranks(_peak(step), dist.ReduceOp.MAX),
                "collectives": _over_ranks(count, dist.ReduceOp.MAX),
                "bytes": _over_ranks(sent, dist.ReduceOp.MAX),
                "seconds": [],
            }
        for _ in range(rounds):
            for name, step in steps.items():
                found[name]["seconds"].append(_turn(step))
        return found
    finally:
        dist.destroy_process_group()


def _over_ranks(number: float, how: Any) -> float:  # noqa: ANN401 - torch's kinds have no type
    everywhere = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(everywhere, how)
    return float(everywhere)


def _turn(step: Step) -> float:
    dist.barrier()
    start = perf_counter()
    for _ in range(STEPS):
        step()
    dist.barrier()
    return (perf_counter() - start) / STEPS


def _peak(step: Step) -> int:
    """The least of several steps: the profiler misses what a thread of gloo frees behind a step."""
    peaks: list[int] = []
    for _ in range(PEAKS):
        dist.barrier()
        peaks.append(torch_peak(step))
    return min(peaks)


def _sent(step: Step) -> tuple[int, int]:
    """Collectives and sends of a step, and the bytes of their payloads."""
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        step()
    count = total = 0
    events: list[Any] = cast("Any", seen.profiler).kineto_results.events()
    for event in events:
        if event.name().startswith(SENT):
            count += 1
            operands = zip(event.shapes(), event.dtypes(), strict=False)
            total += sum(prod(shape) * BYTES[name] for shape, name in operands if shape)
    return count, total
