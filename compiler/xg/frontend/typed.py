"""From the files of a project to typed graphs: every pass that can find an error."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError
from xg.diagnostics.gc_pause import resting_collector
from xg.diagnostics.source import Span
from xg.frontend.project import Project
from xg.ir.graph import Program as Graphs
from xg.ir.size_checks import check_numbers
from xg.passes.infer import infer, infer_partly
from xg.passes.resolve import resolve
from xg.syntax.spelling import ascii_name

Settings = Mapping[str, str | int]


def type_project(
    project: Project,
    block: str | None = None,
    settings: Settings | None = None,
    plan: str | None = None,
) -> Graphs:
    """The typed graphs of a block of a file; raises DiagnosticError with all errors."""
    typed, mistakes = type_partly(project, block, settings)
    if mistakes:
        raise DiagnosticError(mistakes)
    if plan is not None or typed.is_parallel:
        from xg.frontend.plans import planned  # most programs have no plan

        return planned(typed, project, plan, settings)
    return typed


@resting_collector()
def type_partly(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> tuple[Graphs, tuple[Diagnostic, ...]]:
    """The graphs that `type_project` types in spite of errors, and the errors."""
    typed, problems = infer_partly(_resolved(project, block, settings))
    if problems:
        return typed, tuple(problem.diagnostic() for problem in problems)
    try:
        check_numbers(typed, declared_dims(project))
    except DiagnosticError as error:
        return typed, error.diagnostics
    return typed, ()


def shape_project(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> Graphs:
    """The typed graphs of a block of a file, without numbers for its sizes."""
    return infer(_resolved(project, block, settings))


def _resolved(project: Project, block: str | None, settings: Settings | None) -> Graphs:
    chosen = {ascii_name(name): value for name, value in (settings or {}).items()}
    name = ascii_name(block) if block is not None else None
    return resolve(project.main, project.load, name, chosen)


def declared_dims(project: Project) -> dict[str, Span]:
    """Where the files declare each dim; the file that imports wins."""
    found = [decl for module in reversed(project.modules) for decl in module.dims]
    return {decl.name.name: decl.span for decl in found}
