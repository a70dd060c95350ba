"""Ranks as processes: `python -m xg_runtime.ranks.worker`, started by `launch`.

The first line of standard input says what to do. The rest of it says nothing: when it ends, the
launcher is gone, and so are the ranks.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from xg_runtime.errors import RankError
from xg_runtime.ranks.call import CollectiveFailed
from xg_runtime.ranks.folder import Folder, Heartbeat, Report
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.task import Task, function_of, options_of
from xg_runtime.ranks.terms import Terms


def main() -> NoReturn:
    """Be the rank that the order names; where it names several, fork into them."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    rank, *others = order["ranks"]
    if not others:
        _be(rank, order)
    with contextlib.suppress(Exception):  # every rank meets it again, and reports it
        import_module("xg_runtime.ranks.joining")  # takes torch, once for all ranks
    ranks: dict[int, int] = {}
    for rank in order["ranks"]:
        pid = os.fork()
        if pid == 0:
            _print_apart(rank, order)
            _be(rank, order)
        ranks[pid] = rank
    _tell(*ranks)
    while ranks:
        pid, status = os.wait()
        _tell(ranks.pop(pid), os.waitstatus_to_exitcode(status))
    os._exit(0)  # tidying torch away takes a second


def _tell(*numbers: int) -> None:
    """Write a line to the launcher: standard input is a socket."""
    os.write(sys.stdin.fileno(), " ".join(map(str, numbers)).encode() + b"\n")


def _print_apart(rank: int, order: Mapping[str, Any]) -> None:
    """Print where the launcher looks for this rank's output; the first keeps what was given."""
    if rank != order["ranks"][0]:
        with Folder(Path(order["folder"])).said(rank).open("wb") as said:
            os.dup2(said.fileno(), sys.stdout.fileno())
            os.dup2(said.fileno(), sys.stderr.fileno())


def _be(rank: int, order: dict[str, Any]) -> NoReturn:
    """Do a task as one of its ranks, and leave an answer or a report."""
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    folder = Folder(Path(order["folder"]))
    grid = Grid(order["sizes"])
    record = Heartbeat(folder.heartbeat(rank))
    try:
        _work(order, folder, rank, record)
        code = 0
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        report = _report(rank, grid, error)
        folder.write_report(rank, report)
        code = report.error.exit_code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what else runs at an end may wait for ranks that are gone


def _work(order: dict[str, Any], folder: Folder, rank: int, record: Heartbeat) -> None:
    made = order["communicators"] and tuple(order["communicators"])
    terms = Terms(order["timeout"], order["device"], order["checked"], folder.store, made)
    task = Task(order["function"], order["options"], folder.read_arrays(), order["facts"])
    function = function_of(task)
    from xg_runtime.ranks.joining import joined

    with joined(order["sizes"], task.facts, terms, record) as mesh:
        answer = function(options_of(task), task.arrays)
        folder.write_answer(rank, answer, mesh.counters)


def _report(rank: int, grid: Grid, error: Exception) -> Report:
    if isinstance(error, RankError):
        return Report(error, is_echo=False)
    named = RankError.of(rank, grid.describe(rank), error)
    return Report(named, is_echo=isinstance(error, CollectiveFailed))


def _end_with_launcher() -> None:
    with contextlib.suppress(OSError):  # reset, where it had not read all
        sys.stdin.buffer.read()
    os._exit(4)


if __name__ == "__main__":
    main()
