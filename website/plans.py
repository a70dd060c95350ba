"""Plans of a diagram: the code of a rank, and the figures that are committed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from xg.cli.outputs import Wanted, outputs_of
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.escape import slug
from xg.driver import compile_project
from xg.frontend.project import Project


@dataclass(frozen=True)
class PlanCode:
    """A plan of a block that no other calls, or (plan "") the block on one device."""

    block: str
    plan: str
    functions: dict[str, str]  # of blocks, both passes, by name


def plan_code(project: Project, blocks: list[str]) -> tuple[PlanCode, ...]:
    """Every plan of every whole block that it reaches, behind the block without a plan."""
    plans = names(project)
    return tuple(one for block in blocks for one in _of_block(project, block, plans))


@dataclass(frozen=True)
class PlanFigures:
    """The figures of a block under a plan, by their views, and the explorer's page if any."""

    block: str
    plan: str
    stem: str
    light: dict[str, bytes]
    dark: dict[str, bytes]
    page: bytes | None


def plan_figures(folder: Path, project: Project, stem: dict[str, str]) -> Iterator[PlanFigures]:
    """Of every plan whose figures are in `folder` as .dot; `stem` is of each block."""
    for plan in names(project):
        drawn = {block: slug(f"{one}_{plan}") for block, one in stem.items()}
        kept = {block: one for block, one in drawn.items() if [*folder.glob(f"{one}.*.dot")]}
        if kept:
            light = outputs_of(
                project, Wanted(kinds=("svg", "html"), theme="light", plan=plan)
            ).files
            dark = outputs_of(project, Wanted(kinds=("svg",), theme="dark", plan=plan)).files
            for block, one in kept.items():
                views = _views(light, one), _views(dark, one)
                yield PlanFigures(block, plan, one, *views, light.get(f"{one}.html"))


def _views(files: dict[str, bytes], stem: str) -> dict[str, bytes]:
    return {
        name.split(".")[-2]: content
        for name, content in files.items()
        if name.startswith(f"{stem}.") and name.endswith(".svg")
    }


def names(project: Project) -> list[str]:
    """Every plan of a file, also those that are products."""
    main = project.main
    return list(dict.fromkeys(one.name.name for one in main.plan_decls))


def _of_block(project: Project, block: str, plans: list[str]) -> Iterator[PlanCode]:
    found: list[PlanCode] = []
    for plan in plans:
        try:
            source = compile_project(project, block, {}, plan).source()
        except DiagnosticError:  # the plan is of other blocks, or of ranks that cannot share
            continue
        found.append(_code(block, plan, source))
    if found:
        alone = _code(block, "", compile_project(project, block, {}).source())
        yield alone
        yield from (_changed(one, alone) for one in found)


def _changed(code: PlanCode, alone: PlanCode) -> PlanCode:
    """The functions that are others than on one device."""
    kept = {n: text for n, text in code.functions.items() if text != alone.functions.get(n)}
    return replace(code, functions=kept)


def _code(block: str, plan: str, source: str) -> PlanCode:
    every = dict(_functions(source))
    functions = {
        name: text
        for name, text in every.items()
        if f"d_{name}" in every or (name.startswith("d_") and name[2:] in every)
    }
    return PlanCode(block, plan, functions)


def _functions(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_source_segment(source, node) or ""
