"""The plans of a project by name, and what is wrong with them in a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import Project
from xg.ir.graph import Program
from xg.ir.plan import Plan
from xg.passes.eliminate_dead import eliminate_dead
from xg.passes.resolve.plans import multiply, resolve_plans
from xg.passes.shard import place, rank_program, wish
from xg.sharding.apply_plan import check_placed, meshed
from xg.sharding.divisibility import check_shares
from xg.syntax.spelling import ascii_name


def planned(
    typed: Program, project: Project, plan: str | None, settings: Mapping[str, str | int] | None
) -> Program:
    """A typed program with its plan; raises DiagnosticError with all that does not fit."""
    if plan is not None:
        typed = replace(typed, plan=plan_named(project, plan, settings))
    check_parallel(typed)
    return typed


def check_parallel(typed: Program) -> None:
    """Raise DiagnosticError with all that the plan and the cuts of a typed program have wrong."""
    check_placed(typed)
    check_shares(typed)


def check_moves(typed: Program) -> None:
    """Raise DiagnosticError where ranks cannot compute a typed program in parts.

    Nothing is known of a mesh without numbers, or of a block that its plan does not reach. Only
    where two mesh axes cut one axis does the program of a rank find more; its backward pass moves
    what the forward pass has moved, so it does not.
    """
    try:
        graphs = meshed(typed)
    except DiagnosticError:
        return
    placed = placed_program(graphs)
    if _is_cut_twice(placed):
        rank_program(placed)


def _is_cut_twice(placed: Program) -> bool:
    """Whether an axis of some value is cut by more than one mesh axis."""
    placements = (p for graph in placed.graphs.values() for p in graph.placements.values())
    cuts = ([s.axis for s in p.values() if s.kind == "S"] for p in placements)
    return any(len(axes) > len(set(axes)) for axes in cuts)


def placed_program(typed: Program) -> Program:
    """The whole program of a mesh with its moves; raises DiagnosticError."""
    return place(wish(eliminate_dead(typed)))


def plan_named(
    project: Project, name: str, settings: Mapping[str, str | int] | None = None
) -> Plan:
    """A plan of a file's, or a product such as ``DP × TP``; raises DiagnosticError."""
    names = [ascii_name(factor.strip()) for factor in name.replace("*", "×").split("×")]
    if not all(names):
        names = [name]  # which is the name of no plan
    return multiply(plans_of(project, settings), names)


def plans_of(project: Project, settings: Mapping[str, str | int] | None = None) -> dict[str, Plan]:
    """Every plan of a file and of those it uses, by name; raises DiagnosticError."""
    return resolve_plans(project.main, project.load, settings)
