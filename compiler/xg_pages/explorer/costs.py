"""Compile a program at small sizes, and compare the costs of one device and of all its plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from xg.cost.report import report
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program, compile_project, compile_typed
from xg.frontend.choose_plan import planned as under_plan
from xg.frontend.choose_plan import plans_of
from xg.frontend.typed import Settings, dims_of, type_partly
from xg.ir.dim import Dim
from xg.ir.graph import Apply, IRProgram
from xg.verify.facts import SizeFacts, size_facts
from xg.verify.proof_sizes import case, mesh_sizes, verification_sizes
from xg_pages.explorer.facts import BlockUse, Formulas, axis_rules, block_uses
from xg_pages.explorer.play import is_small
from xg_runtime.errors import InputError

RANKS_AT_MOST: Final = 8  # that a page has numbers of
FEW: Final = 2  # along every axis, where the mesh has more in all


def facts_of(program: IRProgram) -> SizeFacts:
    """Constraints on numbers for sizes; those of a rank's program are of its own parts."""
    graphs = {key: replace(graph, layouts={}) for key, graph in program.graphs.items()}
    return size_facts(replace(program, graphs=graphs, plan=None))


def words_of(settings: Settings) -> dict[str, str | int]:
    """The options among settings."""
    return {name: word for name, word in settings.items() if isinstance(word, str)}


def proof_sizes(program: Program, settings: Settings) -> Mapping[str, int]:
    """Sizes to prove a program at, and of a parallel one the mesh; nothing where there are none."""
    if program.distributed is None:
        return verification_sizes(program.graphs, {})
    block, mesh = program.graphs.main.block, _mesh(program)
    try:
        sizes = case(program.project, block, _plan(program), {**words_of(settings), **mesh}).sizes
    except (DiagnosticError, InputError):
        return mesh
    return {**sizes, **mesh}


def at_small_sizes(
    program: Program, settings: Settings, proven: Mapping[str, int], starts: Mapping[str, int]
) -> Program | None:
    """The program at the sizes of its proof; where the file forbids these, at its own.

    Nothing if the file allows no small ones.
    """
    block, outline = program.graphs.main.block, _outline(block_uses(program.graphs))
    declared = sorted(dims_of(program.project, block))
    free = [name for name in declared if name not in program.graphs.main.sizes.defaults]
    choices = (
        {name: proven[name] for name in declared if name in proven},
        {name: proven[name] for name in free if name in proven},
        {name: starts[name] for name in free if name in starts},
    )
    fixed = {**words_of(settings), **_mesh(program)}
    for numbers in choices:
        try:
            small = compile_project(program.project, block, {**fixed, **numbers}, _plan(program))
        except DiagnosticError:  # they do not go together
            continue
        uses = block_uses(small.graphs)
        if is_small(small.graphs) and _outline(uses) == outline:
            return small
    return None


def _plan(program: Program) -> str | None:
    plan = program.graphs.plan
    return plan.name if plan else None


def _mesh(program: Program) -> dict[str, int]:
    """The mesh that it is run on: its own if that has few ranks."""
    mesh = program.graphs.mesh
    if prod(mesh.values()) <= RANKS_AT_MOST:
        return dict(mesh)
    return {axis: min(size, FEW) for axis, size in mesh.items()}


def _outline(uses: Sequence[BlockUse]) -> list[list[str]]:
    """Which steps there are: ranks may send otherwise at sizes that they share otherwise."""
    return [
        [step.op.glyph if isinstance(step, Apply) else "" for _, step in use.steps()]
        for use in uses
    ]


# One device and all plans of a file side by side, as formulas: what one rank has to do.


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
