"""Start ranks as processes on this machine, and collect their results.

    answers = launch(Task("xg_runtime.steps:run", {...}, arrays), {"N_D": 2, "N_T": 2})

Only JSON and safetensors go between processes. They meet through a file and communicate over the
loopback interface. A rank that dies ends the job at once, one that hangs within the timeout; either
is named, and no process is left behind, even if this one is killed.

Tasks are JSON and safetensors. `multiprocessing` sends pickles and reports a lost rank by the
complaints of the others, and torch's own checks look at one group at a time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Final

import xg_runtime
from xg_runtime.errors import InputError, RunError
from xg_runtime.interrupt import Interrupt
from xg_runtime.ranks.folder import Folder
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.processes import Group, RankProcess, groups_of
from xg_runtime.ranks.task import Answer, Task
from xg_runtime.ranks.terms import Terms
from xg_runtime.ranks.watch import Watch

_PAUSE: Final = 0.05  # seconds between two looks
_ENDED_BY_SIGNAL: Final = (130, -2, -15)


def launch(
    task: Task, sizes: Mapping[str, int], terms: Terms | None = None, *, aloud: bool = False
) -> list[Answer]:
    """Return what every rank answers, in rank order: row-major, the first axis outermost.

    `aloud` lets rank 0 print; what other ranks print is shown when they fail. SIGINT and SIGTERM
    are handed on to the ranks, a second one ends them.
    Raises RankError, InputError where torch is missing, KeyboardInterrupt.
    """
    if importlib.util.find_spec("torch") is None:
        raise InputError("ranks that are processes need torch: pip install 'xg[torch]'")
    grid, terms = Grid(dict(sizes)), terms or Terms()
    with tempfile.TemporaryDirectory(prefix="xg-ranks-") as name, Interrupt() as stop:
        folder = Folder(Path(name))
        folder.write_arrays(task.arrays)
        with _start_ranks(task, grid, terms, folder, aloud) as groups:
            _follow(groups, Watch(grid, folder, _by_rank(groups), terms.timeout), stop)
        return [folder.read_answer(rank) for rank in range(grid.count)]


def _follow(groups: Sequence[Group], watch: Watch, stop: Interrupt) -> None:
    """Wait for the end; hand a signal on once."""
    told = False
    try:
        while not watch.look():
            time.sleep(_PAUSE)
            if stop.requested and not told:
                told = True
                for group in groups:
                    group.send(signal.Signals[stop.requested])
    except RunError as error:
        codes = {process.poll() for process in _by_rank(groups)}
        if told and codes & set(_ENDED_BY_SIGNAL):
            raise KeyboardInterrupt(stop.requested) from error
        raise


def _by_rank(groups: Sequence[Group]) -> list[RankProcess]:
    return [RankProcess(group, rank) for group in groups for rank in group.ranks]


@contextlib.contextmanager
def _start_ranks(
    task: Task, grid: Grid, terms: Terms, folder: Folder, aloud: bool
) -> Generator[list[Group]]:
    """Start the processes of all ranks, in rank order, and end them on exit."""
    groups: list[Group] = []
    order = _order(task, grid, terms, folder)
    try:
        for ranks in groups_of(grid.count):
            line = json.dumps(order | {"ranks": list(ranks)}).encode() + b"\n"
            with folder.said(ranks[0]).open("wb") as said:
                output = None if aloud and 0 in ranks else said.fileno()
                groups.append(Group(ranks, _environment(grid.count), line, output))
        yield groups
    finally:
        for group in groups:
            group.end()


def _order(task: Task, grid: Grid, terms: Terms, folder: Folder) -> dict[str, object]:
    """The input of a worker."""
    return {
        "folder": str(folder.path),
        "sizes": dict(grid.sizes),
        "timeout": terms.timeout,
        "device": terms.device,
        "checked": terms.checked,
        "communicators": terms.communicators,
        "function": task.function,
        "options": task.options,
        "facts": dict(task.facts),
    }


def _environment(world: int) -> dict[str, str]:
    """The variables that torchrun would set for all, this package's path, and the interface."""
    here = str(Path(xg_runtime.__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, sys.path)])  # ranks find what this process finds
    usual = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    place = {
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "PYTHONPATH": path,
    }
    return usual | os.environ | place
