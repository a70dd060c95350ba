"""The program at sizes at which it can be run in no time: those of its proof, or the file's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program, compile_project
from xg.frontend.typed import Settings, dims_of
from xg.ir.graph import Apply
from xg.ir.graph import Program as Graphs
from xg.verify.facts import SizeFacts, size_facts
from xg.verify.proof_sizes import case, verification_sizes
from xg_pages.explorer.play import is_small
from xg_pages.explorer.uses import BlockUse, block_uses
from xg_runtime.errors import InputError

RANKS_AT_MOST: Final = 8  # that a page has numbers of
FEW: Final = 2  # along every axis, where the mesh has more in all


def facts_of(program: Graphs) -> SizeFacts:
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
