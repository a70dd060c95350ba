"""A project whose wrong sizes are open: while one is typed, shapes are known by its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from xg.diagnostics.diagnostic import Diagnostic
from xg.diagnostics.lazy_dataclass import replace
from xg.diagnostics.source import Span
from xg.frontend.project import Project
from xg.syntax import ast

Decl = TypeVar("Decl", ast.DimDecl, ast.MeshDecl)


def without_wrong_sizes(project: Project, wrong: Iterable[Diagnostic]) -> Project | None:
    """The project without the sizes that have an error; None where there is no such size."""
    spans = [label.span for each in wrong for label in each.labels]
    modules = {id(module): _opened(module, spans) for module in project.modules}
    if all(module is modules[id(module)] for module in project.modules):
        return None
    uses = {key: modules[id(module)] for key, module in project.uses.items()}
    return Project(modules[id(project.main)], project.paths, uses)


def _opened(module: ast.Module, wrong: Sequence[Span]) -> ast.Module:
    dims, meshes = _open(module.dims, wrong), _open(module.meshes, wrong)
    if (dims, meshes) == (module.dims, module.meshes):
        return module
    return replace(module, dims=dims, meshes=meshes)


def _open(decls: Sequence[Decl], wrong: Sequence[Span]) -> tuple[Decl, ...]:
    return tuple(
        replace(decl, size=None) if any(_holds(decl.span, span) for span in wrong) else decl
        for decl in decls
    )


def _holds(whole: Span, part: Span) -> bool:
    return whole.source is part.source and whole.start <= part.start and part.end <= whole.end
