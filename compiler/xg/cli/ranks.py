"""Where a parallel program runs: on simulated ranks in this process, or on processes."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from xg.codegen.backend import on_processes
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import Processes, SimulatedRanks
from xg.driver import Program
from xg_runtime.errors import InputError, RunError
from xg_runtime.module import Arrays
from xg_runtime.ranks import current
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.run_task import Place, run_task
from xg_runtime.ranks.task import Answer, Json, Task
from xg_runtime.ranks.terms import Terms

if TYPE_CHECKING:
    from xg_runtime.ranks.process_mesh import ProcessMesh


_TASKS = Path(__file__).with_name("rank_tasks.py")


@dataclass(frozen=True, slots=True)
class Ranks:
    """The ranks of a parallel program; `timeout` in seconds.

    `checked` lets processes compare every collective before it begins.
    """

    on: Place
    sizes: Mapping[str, int]
    timeout: float
    checked: bool = False
    device: Literal["cpu", "cuda"] = "cpu"

    @classmethod
    def of(cls, program: Program, options: Namespace) -> Ranks | None:
        """Those that a command is to use; None for a program of one device.

        Raises DiagnosticError for more than are allowed, and where torch is missing; InputError
        where `--on` has nothing to be about.
        """
        if not program.mesh:
            if options.on is None:
                return None
            block, plan = program.graphs.main.block, program.graphs.plan
            how = (
                f"{plan.name} divides nothing of {block}"
                if plan
                else f"--plan NAME chooses how {block} is divided"
            )
            raise InputError(f"--on {options.on} is for parallel programs: {how}")
        sizes = program.mesh
        device = "cuda" if getattr(options, "device", "cpu") == "cuda" else "cpu"
        ranks = cls(options.on or "simulated", sizes, options.timeout, device=device)
        if not is_process_of_many():
            limit = Processes if ranks.on == "processes" else SimulatedRanks
            limit.check(Grid(sizes).count, None)
        if ranks.on == "processes":
            on_processes().require()
        return ranks

    @property
    def terms(self) -> Terms:
        """How processes work together."""
        return Terms(timeout=self.timeout, device=self.device, checked=self.checked)

    def joined(self, facts: Mapping[str, str]) -> AbstractContextManager[ProcessMesh]:
        """Be the rank that torchrun has made this process; `facts` are the same on all."""
        from xg_runtime.ranks.joining import joined  # needs torch, which one rank does not

        return joined(self.sizes, facts, self.terms)

    def do(
        self, function: str, options: Json, arrays: Arrays, *, aloud: bool = False
    ) -> list[Answer]:
        """Let every rank do a function; return what they answer, in rank order.

        The function is one of `rank_tasks`, or ``FILE:NAME``. `aloud` lets rank 0 print. Raises
        RankError.
        """
        place = function if ":" in function else f"{_TASKS}:{function}"
        task = Task(place, options, arrays)
        return run_task(task, self.sizes, on=self.on, terms=self.terms, aloud=aloud)


def is_process_of_many() -> bool:
    """Whether this process is one rank already: started by xg, or by torchrun."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def is_on_mesh() -> bool:
    """Whether a mesh is there for this code: it runs as one of its ranks."""
    try:
        current()
    except RunError:
        return False
    return True
