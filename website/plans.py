"""The code of ranks under each plan of a diagram, function by function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from xg.diagnostic import DiagnosticError
from xg.driver import compile_project
from xg.project import Project


@dataclass(frozen=True)
class PlanCode:
    """A plan of a block that no other calls, or (plan "") the block on one device."""

    block: str
    plan: str
    functions: dict[str, str]  # of blocks, both passes, by name


def plan_code(project: Project, blocks: list[str]) -> tuple[PlanCode, ...]:
    """Every plan of every whole block that it reaches, behind the block without a plan."""
    main = project.main
    plans = list(dict.fromkeys(one.name.name for one in (*main.plans, *main.products)))
    return tuple(one for block in blocks for one in _of_block(project, block, plans))


def _of_block(project: Project, block: str, plans: list[str]) -> Iterator[PlanCode]:
    found: list[PlanCode] = []
    for plan in plans:
        try:
            source = compile_project(project, block, {}, plan).source("numpy")
        except DiagnosticError:  # the plan is of other blocks, or of ranks that cannot share
            continue
        found.append(_code(block, plan, source))
    if found:
        alone = _code(block, "", compile_project(project, block, {}).source("numpy"))
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
