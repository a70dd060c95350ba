"""Ranks on one machine: generated code against what torch itself offers, on the same model.

A data-parallel step is compared with DistributedDataParallel, tensor, sequence and vocabulary
parallel ones with `torch.distributed.tensor.parallel`, a fully sharded one with `fully_shard`,
which gathers the parameters of a layer again or keeps them, a pipeline with that of
`torch.distributed.pipelining`, and a ring with torch's. All take turns in the same processes.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from bench.contestants import Task
from bench.pairs import Ratio, summary

RANKS: Final = (2, 4)
# Where the sequence is cut it is longer: a rank of short ones only waits for others.
TASKS: Final[tuple[tuple[str, Task, Mapping[str, tuple[str, float]]], ...]] = (
    (
        "D 256, L 4",
        Task(8, 128, {"D": 256, "N_L": 4, "N_H": 8, "V": 1024}),
        {
            "xg DP": ("torch DDP", 1.0),
            "xg TP": ("torch TP", 0.9),
            "xg SP × VP": ("torch SP × VP", 0.9),
            "xg FSDP": ("torch fully_shard", 0.9),
            "xg ZeRO2": ("torch fully_shard, kept", 0.9),
            "xg PP": ("torch 1F1B", 1.0),
        },
    ),
    (
        "S 1,024",
        Task(1, 1024, {"D": 256, "N_L": 4, "N_H": 8, "V": 1024}),
        {"xg Ring": ("torch ring", 1.0), "xg Zigzag": ("torch ring, balanced", 1.0)},
    ),
)


@dataclass(frozen=True, slots=True)
class Found:
    """Of one contestant: its loss, seconds of a step in every round, what it sends and holds.

    `collectives`, `bytes` and `peak` are those of the rank that has most.
    """

    loss: float
    seconds: list[float]
    collectives: float
    bytes: float
    peak: float


def measure(pairs: int) -> Iterator[Ratio]:
    """Times, numbers of collectives, bytes and peaks, each against torch's own."""
    for ranks in RANKS:
        for size, task, goals in TASKS:
            found = race(
                task,
                ranks,
                [name for name, (other, _) in goals.items() for name in (name, other)],
                pairs,
            )
            for name, (reference, target) in goals.items():
                mine, theirs = found[name], found[reference]
                called = f"{ranks} ranks, {size}: {name}"
                times = list(zip(mine.seconds, theirs.seconds, strict=True))
                yield summary(called, reference, times, target)
                yield from _counted(called, reference, mine, theirs)


def _counted(called: str, reference: str, mine: Found, theirs: Found) -> Iterator[Ratio]:
    for what, unit, target, pair in (
        ("collectives", "calls", 1.0, (mine.collectives, theirs.collectives)),
        ("sent", "B", None, (mine.bytes, theirs.bytes)),
        ("peak", "B", 1.0, (mine.peak, theirs.peak)),
    ):
        yield replace(summary(f"{called}, {what}", reference, [pair], target), unit=unit)


def race(task: Task, size: int, names: Sequence[str], rounds: int) -> dict[str, Found]:
    """Every contestant in every round, on all ranks at once; losses are those of one model."""
    context = get_context("spawn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        ranks = [
            context.Process(target=_rank, args=(rank, size, port, task, names, rounds, str(out)))
            for rank in range(size)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        told: dict[str, dict[str, Any]] = json.loads(out.read_text())
    found = {name: Found(**values) for name, values in told.items()}
    (first, *_), losses = names, {name: each.loss for name, each in found.items()}
    if any(abs(loss - losses[first]) > 1e-5 * losses[first] for loss in losses.values()):
        raise ValueError(f"the contestants compute different models: {losses}")
    return found


def _rank(
    rank: int, size: int, port: int, task: Task, names: Sequence[str], rounds: int, out: str
) -> None:
    from bench.parallel_rank import run

    found = run(rank, size, port, task, names, rounds)
    if rank == 0:
        Path(out).write_text(json.dumps(found))
