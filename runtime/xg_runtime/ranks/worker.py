"""One rank as a process: `python -m xg_runtime.ranks.worker`, started by `launch`.

The first line of standard input says what to do. The rest of it says nothing: when it ends, the
launcher is gone, and so is this process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from xg_runtime.errors import RankError
from xg_runtime.ranks.failure import CollectiveFailed
from xg_runtime.ranks.folder import Folder, Report
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.heartbeat import Heartbeat
from xg_runtime.ranks.task import Task, function_of, options_of
from xg_runtime.ranks.terms import Terms


def main() -> NoReturn:
    """Do a task as one of its ranks, and leave an answer or a report."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    rank = int(os.environ["RANK"])
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
    terms = Terms(order["timeout"], order["device"], order["checked"], folder.store)
    task = Task(order["function"], order["options"], folder.read_arrays(), order["facts"])
    function = function_of(task)
    from xg_runtime.ranks.joining import joined  # takes torch, which takes its time

    with joined(order["sizes"], task.facts, terms, record) as mesh:
        answer = function(options_of(task), task.arrays)
        folder.write_answer(rank, answer, mesh.counters)


def _report(rank: int, grid: Grid, error: Exception) -> Report:
    if isinstance(error, RankError):
        return Report(error, is_echo=False)
    named = RankError.of(rank, grid.describe(rank), error)
    return Report(named, is_echo=isinstance(error, CollectiveFailed))


def _end_with_launcher() -> None:
    sys.stdin.buffer.read()
    os._exit(4)


if __name__ == "__main__":
    main()
