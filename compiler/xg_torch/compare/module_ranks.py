"""Code of others on several ranks, started here or by torchrun, beside a diagram under a plan."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xg.cli.ranks import Ranks, is_process_of_many
from xg.codegen.backend import on_processes
from xg.diagnostics.limits import Processes
from xg.frontend.project import Project
from xg_runtime.errors import InputError
from xg_runtime.ranks.grid import Grid
from xg_torch.compare.comparison import ModuleAgreement
from xg_torch.compare.dumped_ranks import compare_ranks, planned
from xg_torch.compare.rank_of_module import call_for, seen
from xg_torch.compare.stages_of_module import (
    call_of_stages,
    compare_stages,
    seen_of_stage,
    stages_of,
)

if TYPE_CHECKING:
    from xg_runtime.ranks.task import Answer


TASK: Final = f"{Path(__file__).with_name('rank_task.py')}:compare"


def compare_module_on_ranks(project: Project, options: Namespace) -> ModuleAgreement | None:
    """Run the module on every rank of the plan, and compare; None on ranks but the first.

    Raises InputError, DiagnosticError, RankError.
    """
    if options.file == "-":
        raise InputError("ranks that are processes read the file themselves: give it a name")
    sizes = (stages_of(project, options) or planned(project, options)).mesh
    on_processes().require()
    ranks = Ranks("processes", sizes, options.timeout)
    if not is_process_of_many():
        Processes.check(Grid(dict(sizes)).count, None)
        return _compared(project, options, ranks.do(TASK, {"words": options.words}, {}))
    with ranks.joined({"plan": options.plan}):
        answers = _gathered(project, options)
    return _compared(project, options, answers) if answers else None


def _gathered(project: Project, options: Namespace) -> list[Answer]:
    """The answers of all ranks, on the first of them."""
    import torch.distributed as dist

    collective: Any = dist
    in_stages = stages_of(project, options) is not None
    answer = seen_of_stage(project, options) if in_stages else seen(project, options)
    answers: list[Any] | None = None
    if collective.get_rank() == 0:
        answers = [None] * collective.get_world_size()
    collective.gather_object(answer, answers)
    return answers or []


def _compared(project: Project, options: Namespace, answers: Sequence[Answer]) -> ModuleAgreement:
    found, facts = [answer.arrays for answer in answers], answers[0].facts
    in_stages = stages_of(project, options) is not None
    if "refused" in facts:
        (call_of_stages if in_stages else call_for)(project, options, found, facts["config"])
        raise AssertionError("no call could be made on the ranks")
    # In the order of their code, which a file of arrays does not keep.
    orders = [answer.facts["order"] for answer in answers]
    pairs = zip(found, orders, strict=True)
    found = [{name: arrays[name] for name in order if name in arrays} for arrays, order in pairs]
    own = [*map(tuple, facts["settings"]), *options.settings]
    known = Namespace(**{**vars(options), "settings": own, "against": options.module})
    return (compare_stages if in_stages else compare_ranks)(project, known, found)
