"""The plans of a project by name, and what is wrong with them in a program."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import replace
from xg.frontend.project import Project
from xg.ir.graph import IRProgram
from xg.ir.plan import Plan
from xg.passes.resolve.plans import multiply, resolve_plans
from xg.passes.resolve.units import Linker
from xg.sharding.apply_plan import check_placed, cut_row, placed_values
from xg.sharding.divisibility import check_shares
from xg.sharding.padding import padded_numbers
from xg.syntax.spelling import ascii_name


def planned(
    typed: IRProgram, project: Project, plan: str | None, settings: Mapping[str, str | int] | None
) -> IRProgram:
    """A typed program with its plan; raises DiagnosticError with all that does not fit."""
    if plan is not None:
        typed = replace(typed, plan=plan_named(project, plan, settings))
    check_parallel(typed)
    return typed


def check_parallel(typed: IRProgram) -> None:
    """Raise DiagnosticError with all that the plan and the cuts of a typed program have wrong."""
    reached = tuple(placed_values(typed))
    cut_row(typed)
    check_placed(reached)
    padded = padded_numbers(typed, reached)
    check_shares(replace(typed, numbers={**typed.numbers, **padded}), reached)


def plan_named(
    project: Project,
    name: str,
    settings: Mapping[str, str | int] | None = None,
    linker: Linker | None = None,
) -> Plan:
    """A plan of a file's, or a product such as ``DP × TP``; raises DiagnosticError.

    A `linker` of the project may be given, which others use too.
    """
    names = [ascii_name(factor.strip()) for factor in name.replace("*", "×").split("×")]
    if not all(names):
        names = [name]  # which is the name of no plan
    linker = linker or Linker(project.main, project.load)
    return multiply(resolve_plans(linker, settings, names), names)


def plans_of(
    project: Project,
    settings: Mapping[str, str | int] | None = None,
    linker: Linker | None = None,
) -> dict[str, Plan]:
    """Every plan of a file and of those it uses, by name; raises DiagnosticError."""
    return resolve_plans(linker or Linker(project.main, project.load), settings)
