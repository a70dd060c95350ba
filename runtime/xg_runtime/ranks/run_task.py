"""Doing a task on all ranks of a mesh, simulated or as processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from xg_runtime.ranks.launch import launch
from xg_runtime.ranks.mesh import current
from xg_runtime.ranks.simulated import TIMEOUT, simulate
from xg_runtime.ranks.task import Answer, Task, function_of, options_of
from xg_runtime.ranks.terms import Terms

__all__ = ["run_task", "Task", "Answer"]

Place = Literal["simulated", "processes"]


def run_task(
    task: Task,
    sizes: Mapping[str, int],
    *,
    on: Place,
    terms: Terms | None = None,
    aloud: bool = False,
) -> list[Answer]:
    """Return what every rank answers, in rank order; each has the arrays of the task as its own.

    Raises RankError as `simulate` and `launch` do, InputError where there is no such function.
    """
    if on == "processes":
        return launch(task, sizes, terms, aloud=aloud)
    function = function_of(task)

    def on_rank() -> Answer:
        arrays = {name: array.copy() for name, array in task.arrays.items()}
        answer = function(options_of(task), arrays)
        return replace(answer, counts=dict(current().counters.counts))

    return simulate(sizes, on_rank, timeout=terms.timeout if terms else TIMEOUT)
