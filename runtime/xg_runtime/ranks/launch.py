"""Start ranks as processes on this machine, and collect their results.

    answers = launch(Task("xg_runtime.steps:run", {...}, arrays), {"N_D": 2, "N_T": 2})

Only JSON and safetensors go between processes. They meet through a file and communicate over the
loopback interface. A rank that dies ends the job at once, one that hangs within the timeout; either
is named, and no process is left behind, even if this one is killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

import xg_runtime
from xg_runtime.errors import InputError, RunError
from xg_runtime.interrupt import Interrupt
from xg_runtime.ranks.folder import Folder
from xg_runtime.ranks.grid import Grid
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
        with _started(task, grid, terms, folder, aloud) as processes:
            _follow(processes, Watch(grid, folder, processes, terms.timeout), stop)
        return [folder.read_answer(rank) for rank in range(grid.count)]


def _follow(processes: list[subprocess.Popen[bytes]], watch: Watch, stop: Interrupt) -> None:
    """Wait for the end; hand a signal on once."""
    told = False
    try:
        while not watch.look():
            time.sleep(_PAUSE)
            if stop.requested and not told:
                told = True
                _signal(processes, stop.requested)
    except RunError as error:
        codes = {process.returncode for process in processes}
        if told and codes & set(_ENDED_BY_SIGNAL):
            raise KeyboardInterrupt(stop.requested) from error
        raise


def _signal(processes: list[subprocess.Popen[bytes]], name: str) -> None:
    import signal

    for process in processes:
        process.send_signal(signal.Signals[name])


@contextlib.contextmanager
def _started(
    task: Task, grid: Grid, terms: Terms, folder: Folder, aloud: bool
) -> Generator[list[subprocess.Popen[bytes]]]:
    """The processes of all ranks; at the end there are none."""
    processes: list[subprocess.Popen[bytes]] = []
    order = json.dumps(_order(task, grid, terms, folder)).encode() + b"\n"
    try:
        for rank in range(grid.count):
            processes.append(_start(rank, grid.count, folder, aloud and rank == 0))
        for process in processes:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it is gone: the watch will see it
                process.stdin.write(order)
                process.stdin.flush()
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()


def _order(task: Task, grid: Grid, terms: Terms, folder: Folder) -> dict[str, object]:
    """The input of a worker."""
    return {
        "folder": str(folder.path),
        "sizes": dict(grid.sizes),
        "timeout": terms.timeout,
        "device": terms.device,
        "checked": terms.checked,
        "function": task.function,
        "options": task.options,
        "facts": dict(task.facts),
    }


def _start(rank: int, world: int, folder: Folder, aloud: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "xg_runtime.ranks.worker"]
    with folder.said(rank).open("wb") as said:
        return subprocess.Popen(
            command,
            env=_environment(rank, world),
            stdin=subprocess.PIPE,
            stdout=None if aloud else said,
            stderr=None if aloud else said,
            start_new_session=True,  # Ctrl-C reaches the launcher alone, which passes it on
        )


def _environment(rank: int, world: int) -> dict[str, str]:
    """The variables that torchrun would set, the path of this package, and the interface."""
    here = str(Path(xg_runtime.__file__).parents[1])
    path = os.pathsep.join([here, *filter(None, sys.path)])  # ranks find what this process finds
    usual = {
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    place = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "PYTHONPATH": path,
    }
    return usual | os.environ | place
