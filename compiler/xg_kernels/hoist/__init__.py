"""Steps of a loop that need no state, made for all its rounds at once, before it.

Only emission with kernels asks for it. One product for all positions of a text costs less than one
for each, and so do the gradients of its matrix. A sum of three is put in another order where that
makes two of its terms free of states.
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import replace
from xg.ir.content import prune
from xg.ir.graph import Call, Graph, IRProgram, Loop, Step, Value
from xg.ir.tensor import TensorType
from xg.ir.walk import reachable_keys
from xg_kernels.hoist.loops import LoopSteps, in_sizes_of, same_symbols
from xg_kernels.hoist.recurrence import Unrolled


def hoist(program: IRProgram) -> IRProgram:
    """The program with what its loops can do before they begin."""
    graphs: dict[str, Graph] = {}
    for key, graph in program.graphs.items():
        graphs[key] = _hoist_from_loops(graph, graphs)
    kept = {key: graphs[key] for key in reachable_keys(graphs, program.entry)}
    return replace(program, graphs=kept, backwards={})


def _hoist_from_loops(graph: Graph, graphs: dict[str, Graph]) -> Graph:
    """A graph whose loops are relieved; the callees that remain of these join the `graphs`."""
    types, steps = dict(graph.types), list[Step]()
    foreign = {str(value.name): value for value in graph.foreign}
    for step in graph.steps:
        found = None
        if isinstance(step, Call) and step.loop:
            unrolled = _unroll_loop(step, step.loop, graph, graphs, types, foreign)
            if unrolled is not None:
                steps += unrolled
                continue
            if same_symbols(step):
                found = LoopSteps(
                    step, step.loop, graphs[step.callee], types, foreign
                ).hoist_steps()
        if found is None:
            steps.append(step)
            continue
        before, call, callee = found
        key = f"{callee.key}, relieved {len(graphs)}"
        graphs[key] = replace(callee, key=key)
        steps += [*before, replace(call, callee=key)]
    if tuple(steps) == graph.steps:
        return graph
    lent = tuple(foreign.values())
    return prune(replace(graph, steps=tuple(steps), types=types, foreign=lent))


def _unroll_loop(
    call: Call,
    loop: Loop,
    caller: Graph,
    graphs: dict[str, Graph],
    types: dict[Value, TensorType],
    foreign: dict[str, Value],
) -> list[Step] | None:
    """Unroll a loop over linear recurrences; change nothing and return None for other loops."""
    spelled = in_sizes_of(caller, call, graphs[call.callee])
    if spelled is None:
        return None
    call, callee = spelled
    unrolled = Unrolled(call, loop, callee, dict(types), dict(foreign), callees=dict(graphs))
    steps = unrolled.steps()
    if steps is not None:
        types |= unrolled.types
        foreign |= unrolled.foreign
        graphs |= unrolled.callees
    return steps
