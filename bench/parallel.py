"""Two ranks on one machine: generated code against what torch itself offers, on the same model.

A data-parallel step is compared with DistributedDataParallel, a tensor-parallel one with
`torch.distributed.tensor.parallel`, a fully sharded one with `fully_shard`, which gathers the
parameters of a layer again or keeps them. All take turns in the same two processes.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from bench.contestants import Task
from bench.pairs import Ratio, summary

RANKS: Final = 2
TASKS: Final[Mapping[str, Task]] = {
    "D 256, L 4": Task(8, 128, {"D": 256, "N_L": 4, "N_H": 8, "V": 1024}),
}
GOALS: Final = (
    ("xg DP", "torch DDP"),
    ("xg TP", "torch TP"),
    ("xg FSDP", "torch fully_shard"),
    ("xg ZeRO2", "torch fully_shard, kept"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """Of one contestant: seconds of a step in every round, and what it sends in one."""

    seconds: list[float]
    collectives: int
    bytes: int


def measure(pairs: int) -> Iterator[Ratio]:
    """Times, numbers of collectives and bytes, each against torch's own."""
    for size, task in TASKS.items():
        found = _race(task, pairs)
        for name, reference in GOALS:
            mine, theirs = found[name], found[reference]
            times = list(zip(mine.seconds, theirs.seconds, strict=True))
            yield summary(f"{size}: {name}", reference, times, 1.0)
            counts = [(float(mine.collectives), float(theirs.collectives))]
            what = f"{size}: {name}, collectives"
            yield replace(summary(what, reference, counts, 1.0), unit="calls")
            sent = [(float(mine.bytes), float(theirs.bytes))]
            yield replace(summary(f"{size}: {name}, sent", reference, sent, None), unit="B")


def _race(task: Task, rounds: int) -> dict[str, Found]:
    """Every contestant in every round, on both ranks at once."""
    context = get_context("spawn")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        ranks = [
            context.Process(target=_rank, args=(rank, port, task, rounds, str(out)))
            for rank in range(RANKS)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        told: dict[str, dict[str, Any]] = json.loads(out.read_text())
    return {name: Found(**values) for name, values in told.items()}


def _rank(rank: int, port: int, task: Task, rounds: int, out: str) -> None:
    from bench.parallel_rank import run

    found = run(rank, RANKS, port, task, rounds)
    if rank == 0:
        Path(out).write_text(json.dumps(found))
