"""The first lines of public functions: they refuse arguments that no shape tells apart."""

from __future__ import annotations

from xg.codegen.emit.collectives import mesh_lines
from xg.codegen.emit.forward import Forward
from xg.codegen.emit.line_breaks import bracketed
from xg.codegen.emit.module_plan import ModulePlan
from xg.ir.graph import Program


def first_checks(plan: ModulePlan) -> list[str]:
    """Lines that refuse another mesh, what is no dict of arrays, and inputs of other names."""
    plan.helpers.update(dict.fromkeys(("check_named", "check_inputs", "check_names")))
    known = [f'"{value.name}"' for value in plan.program.main.inputs]
    inputs = bracketed("_check_inputs(", ["params", "inputs", *known], ")", 4)
    return [*mesh_lines(plan.program.mesh), *inputs]


def checked_names(program: Program) -> list[str]:
    """The line that refuses parameters of other names than the program's."""
    return [] if program.partial else ["_check_names(params, *table)"]


def backward_checks(plan: ModulePlan, entry: Forward) -> list[str]:
    """Lines that refuse other arguments than a backward pass takes."""
    plan.helpers["check_named"] = None
    fields = [f'_check_saved(saved, "{name}")' for name in entry.fields.values()][:1]
    if fields:
        plan.helpers["check_saved"] = None
    return [*fields, "_check_named(params=params, d_outputs=d_outputs)"]
