"""One device and all plans of a file side by side, as formulas: what one rank has to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xg.cost.report import report
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program, compile_typed
from xg.frontend.choose_plan import planned as under_plan
from xg.frontend.choose_plan import plans_of
from xg.frontend.typed import Settings, type_partly
from xg.ir.dim import Dim
from xg.verify.facts import SizeFacts
from xg.verify.proof_sizes import mesh_sizes
from xg_pages.explorer.formulas import Formulas, axis_rules
from xg_pages.explorer.small import facts_of


@dataclass(frozen=True, slots=True)
class Planned:
    """The block of a page under a plan, or on one device, and what it costs there."""

    name: str
    program: Program
    amounts: tuple[Dim, ...]
    facts: SizeFacts


def planned(program: Program, settings: Settings) -> Iterator[Planned]:
    """The block of a program under every plan that places something in it, one after the other.

    One device comes first, without a name; there is nothing where there are no plans, and of a
    program that is one rank's already.
    """
    if program.distributed is not None:
        return
    project = program.project
    names = plans_of(project, settings)
    if not names:
        return
    typed, mistakes = type_partly(project, program.graphs.main.block, settings)
    for name in ("", *names) if not mistakes else ():
        try:
            has_ranks = name or typed.is_parallel
            given = under_plan(typed, project, name or None, settings) if has_ranks else typed
            one = compile_typed(given, project)
        except DiagnosticError:  # it is of other blocks, or its ranks cannot share these sizes
            continue
        yield Planned(name, one, _amounts(one), facts_of(one.graphs))


def plans_data(plans: Sequence[Planned], formulas: Formulas) -> list[dict[str, object]]:
    """Of each: its name and title, what `xg cost --plan '*'` says of it, what must be whole."""
    return [
        {
            "name": one.name,
            "title": one.program.graphs.plan.title if one.program.graphs.plan else "",
            "costs": [formulas.place(dim) for dim in one.amounts],
            "whole": axis_rules(one.program.graphs, formulas, one.facts)["whole"],
        }
        for one in plans
    ]


def mesh_of(*programs: Program) -> dict[str, int]:
    """The mesh axes of some programs and their ranks, as the files declare them one by one."""
    sizes = {axis: size for one in programs for axis, size in one.graphs.mesh.items()}
    return {axis: sizes[axis] for axis in mesh_sizes(programs[0].project) if axis in sizes}


def _amounts(program: Program) -> tuple[Dim, ...]:
    """Parameters, bytes held in training, FLOPs, elements sent naively and around a ring."""
    sizes = program.graphs.main.sizes
    compared = report(program.graphs, program.distributed).compared
    return tuple(sizes.expand(dim) for dim in compared)
