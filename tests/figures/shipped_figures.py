"""Every figure that ships: all diagrams, blocks, views and plans; ranks side by side are a view."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from frontend.plans.shipped import products

from xg.cli.outputs import OF_NOTHING
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program, compile_project
from xg.figures.model.figure import Figure
from xg.frontend.project import Project, read_project
from xg.frontend.typed import concerning

LIBRARY: Final = Path(__file__).parents[2] / "diagrams"
DIAGRAMS: Final = sorted(LIBRARY.rglob("*.xg"))


@cache
def _read(path: Path) -> Project:
    return read_project(path)


def plans(project: Project) -> list[str]:
    """The plans that a file names itself."""
    main = project.main
    return list(dict.fromkeys(each.name.name for each in main.plan_decls))


def is_product(path: Path, plan: str) -> bool:
    """Whether a file says that a plan is a product of others."""
    return plan in products(_read(path))


def programs(path: Path, plan: str | None = None) -> Iterator[tuple[str, Program]]:
    """Every block of a file under a plan, and what it is called."""
    project = _read(path)
    for block in [each.name.name for each in project.main.blocks] or [None]:
        try:
            program = compile_project(project, block, concerning(project, block, {}), plan)
        except DiagnosticError as error:
            if plan is not None and all(each.code == OF_NOTHING for each in error.diagnostics):
                continue  # a plan is not of every block
            raise
        yield ".".join(filter(None, (path.stem, program.graphs.main.block, plan))), program


def figures(path: Path, plan: str | None = None) -> Iterator[tuple[str, Figure]]:
    """Every figure of a file's blocks under a plan, and what it is called."""
    for name, program in programs(path, plan):
        for view in program.views:
            yield f"{name}.{view}", program.figure(view)


CASES: Final = [(path, plan) for path in DIAGRAMS for plan in (None, *plans(_read(path)))]
