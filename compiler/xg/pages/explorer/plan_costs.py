"""One device and all plans of a file side by side, as formulas: what one rank has to do."""

from __future__ import annotations

from collections.abc import Mapping

from xg.cost.report import report
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program, compile_project
from xg.frontend.choose_plan import plans_of
from xg.frontend.typed import Settings
from xg.ir.dim import Dim
from xg.pages.explorer.formulas import Formulas, axis_rules
from xg.pages.explorer.small import facts_of
from xg.verify.meshes import mesh_sizes


def planned(program: Program, settings: Settings) -> dict[str, Program]:
    """The block of a program under every plan that places something in it, by name.

    One device comes first, without a name; there is nothing where there are no plans, and of a
    program that is one rank's already.
    """
    if program.distributed is not None:
        return {}
    block, programs = program.graphs.main.block, dict[str, Program]()
    for name in ("", *plans_of(program.project, settings)):
        try:
            programs[name] = compile_project(program.project, block, settings, name or None)
        except DiagnosticError:  # it is of other blocks, or its ranks cannot share these sizes
            continue
    return programs if len(programs) > 1 else {}


def plans_data(programs: Mapping[str, Program], formulas: Formulas) -> list[dict[str, object]]:
    """Of each: its name and title, what `xg cost --plan '*'` says of it, what must be whole."""
    return [
        {
            "name": name,
            "title": one.graphs.plan.title if one.graphs.plan else "",
            "costs": [formulas.place(dim) for dim in _amounts(one)],
            "whole": axis_rules(one.graphs, formulas, facts_of(one.graphs))["whole"],
        }
        for name, one in programs.items()
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
