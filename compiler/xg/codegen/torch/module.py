"""A program as a module in torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from xg.codegen.emit.allowlist import check_allowed
from xg.codegen.emit.module import ModuleWriter, Sections
from xg.codegen.emit.module import emit as emit_module
from xg.codegen.emit.module_plan import ModulePlan
from xg.codegen.emit.scopes import write_with_stable_names
from xg.codegen.torch.dialect import TORCH
from xg.codegen.torch.model_class import model_section
from xg.codegen.torch.rank_model import rank_model_section
from xg.ir.graph import Backward, Call, Graph, Program

G = TypeVar("G", bound=Graph)


def emit(program: Program, outlined: Program | None, *, kernels: bool = False) -> str:
    """The source of the module; `outlined` is the same program with an entry of calls only.

    Without it there is a `Model` on ranks alone. With `kernels` the graphs are fused ones.
    """
    if outlined is not None:
        source, writer = write_with_stable_names(lambda: marked(program, outlined, kernels=kernels))
    elif program.mesh and program.stage is None:
        source, writer = write_with_stable_names(lambda: _of_rank(program, kernels=kernels))
    else:
        return emit_module(program, TORCH, kernels=kernels)
    check_allowed(source, writer.vocabulary(source), _attributes(program))
    return source


def marked(
    program: Program, outlined: Program, *, kernels: bool = False
) -> tuple[str, ModuleWriter]:
    """The source of a module with a `Model`, its names marked, and what wrote it."""
    outlined = _with_own_keys(outlined, program)
    graphs = {**outlined.graphs, **program.graphs}
    backwards = {**outlined.backwards, **program.backwards}
    both = replace(program, graphs=graphs, backwards=backwards)
    calls = (step for step in outlined.main.steps if isinstance(step, Call))
    pieces = frozenset({outlined.entry, *(call.callee for call in calls if not call.path)})
    by_hand = TORCH.kernels if kernels else None
    writer = ModuleWriter(
        both,
        TORCH,
        ModulePlan.start(both, TORCH.spelling, pieces, kernels=by_hand, always=TORCH.always),
    )

    def section(writer: ModuleWriter) -> Sections:
        return model_section(writer, outlined)

    return writer.source(section), writer


def _with_own_keys(outlined: Program, program: Program) -> Program:
    """The outlined program, with other keys for blocks whose backward pass is another one there.

    If `stop` hides a loop, the program has no backward pass that could collect its gradients. The
    pieces of the outlined one have: autograd decides there what is run.
    """
    keys = {
        key: f"{key}, outlined"
        for key, backward in outlined.backwards.items()
        if key in program.backwards and _axes(backward) != _axes(program.backwards[key])
    }
    if not keys:
        return outlined
    calls: dict[Call, Call] = {}

    def renamed(graph: G) -> G:
        for call in graph.calls:
            origin = calls.get(call.origin) if call.origin else None
            callee = keys.get(call.callee, call.callee)
            calls[call] = replace(call, callee=callee, origin=origin)
        steps = tuple(calls[step] if isinstance(step, Call) else step for step in graph.steps)
        return replace(graph, key=keys.get(graph.key, graph.key), steps=steps)

    graphs = {graph.key: graph for graph in map(renamed, outlined.graphs.values())}
    backwards = {
        backward.key: replace(backward, forward=graphs[backward.key])
        for backward in map(renamed, outlined.backwards.values())
    }
    return replace(outlined, graphs=graphs, backwards=backwards)


def _axes(backward: Backward) -> list[int | None]:
    """The axes of the values that a loop gives its caller of all rounds."""
    return [axis for _, axis in backward.rows]


def _of_rank(program: Program, *, kernels: bool) -> tuple[str, ModuleWriter]:
    """The source of a rank's module with a `Model`, its names marked, and what wrote it."""
    by_hand = TORCH.kernels if kernels else None
    writer = ModuleWriter(
        program,
        TORCH,
        ModulePlan.start(program, TORCH.spelling, kernels=by_hand, always=TORCH.always),
    )
    return writer.source(rank_model_section), writer


def _attributes(program: Program) -> Iterator[str]:
    """The attributes of modules: parameters, and a module for every call."""
    for graph in program.graphs.values():
        for value in graph.param_values():
            yield from str(value.name).split(".")
        yield from (call.path for call in graph.named_calls())
