"""The prologue of a block's steps: their inputs, computed from inputs without positions."""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.content import prune
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg_generate.decode_step.assemble import given_names
from xg_generate.decode_step.block import StepCall, StepPlan, StepRequest


def prologue_graph(
    plan: StepPlan, program: IRProgram, graphs: Mapping[str, Graph], keys: Mapping[StepRequest, str]
) -> Graph:
    """A block that gives what its step is given, and nothing else."""
    graph = program.graphs[plan.request.callee]
    asked: dict[Value, list[StepCall]] = {}
    for part in plan.parts:
        if isinstance(part, StepCall) and part.given:
            asked.setdefault(part.step.saved, []).append(part)
    steps: list[Apply | Call] = []
    for step in graph.steps:
        steps.append(step)
        if isinstance(step, Call):
            callee = program.graphs[step.callee]
            for part in asked.get(step.saved, ()):
                ready = graphs[keys[part.request]]
                steps.append(_call_before(step, part, callee, ready, plan.request.same))
    values = set(plan.given)
    for step in reversed(steps):
        if not values.isdisjoint(step.outputs):
            values.update(step.inputs)
    names = given_names(plan)
    before_steps = replace(
        graph,
        key=keys[plan.request],
        inputs=tuple(value for value in graph.inputs if value in values),
        outputs=plan.given,
        output_names=tuple(names[value] for value in plan.given),
        output_types=tuple(map(plan.type_of, plan.given)),
        steps=tuple(steps),
        types={**graph.types, **plan.handed},
    )
    return prune(before_steps)


def _call_before(
    call: Call, part: StepCall, callee: Graph, before: Graph, positions: tuple[str, ...]
) -> Call:
    """The call of a callee's prologue, with sizes that have no positions."""
    ports = zip(callee.inputs, call.inputs, strict=True)
    return replace(
        call,
        callee=before.key,
        inputs=tuple(value for port, value in ports if port in before.inputs),
        outputs=part.given,
        saved=Value(call.saved.name, "saved", call.span),
        sizes={
            name: dim
            for name, dim in call.sizes.items()
            if not set(positions).intersection(dim.symbols())
        },
    )
