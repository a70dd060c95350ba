"""Parameters of the blocks that loops call, given to all rounds by the graph that makes the loop.

Ranks that have parts of a batch sum the gradient of each parameter. Inside of a loop every round
would send its own; the gradient of an operand that all rounds share is sent once, behind them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Call, Graph, Program, Step, Value
from xg.ir.parameters import moving


@dataclass(frozen=True, slots=True)
class _Lent:
    """A graph that loops call, and the inputs that take the place of parameters in its steps."""

    graph: Graph
    inputs: Mapping[Value, Value]


def lend(program: Program) -> Program:
    """The program whose loops are given the parameters of what they call."""
    calls = [call for graph in program.graphs.values() for call in graph.calls]
    plain = {call.callee for call in calls if call.loop is None} | {*program.entries}
    looped = dict.fromkeys(call.callee for call in calls if call.loop and call.path)
    lent = {key: _lent(program.graphs[key]) for key in looped if key not in plain}
    lent = {key: each for key, each in lent.items() if each.inputs}
    if not lent:
        return program
    graphs = {key: lent[key].graph if key in lent else g for key, g in program.graphs.items()}
    return replace(program, graphs={key: _lending(g, lent) for key, g in graphs.items()})


def _lent(graph: Graph) -> _Lent:
    """A graph with an input for each of its parameters; those that go round come last."""
    statistics = {each.param for each in moving(graph)}  # which the block moves itself
    inputs = {
        param.value: replace(param.value, name=f"{param.value.name}_shared", role="input")
        for param in graph.params
        if param.value not in statistics
    }
    place = len(graph.inputs) - len(graph.carries)
    steps = tuple(
        replace(step, inputs=tuple(inputs.get(value, value) for value in step.inputs))
        for step in graph.steps
    )
    changed = replace(
        graph,
        inputs=(*graph.inputs[:place], *inputs.values(), *graph.inputs[place:]),
        steps=steps,
        types={**graph.types, **{new: graph.types[value] for value, new in inputs.items()}},
    )
    return _Lent(changed, inputs)


def _lending(graph: Graph, lent: Mapping[str, _Lent]) -> Graph:
    """A graph that gives its loops the parameters of what they call."""
    if all(call.callee not in lent for call in graph.calls):
        return graph
    foreign = {str(value.name): value for value in graph.foreign}
    types, steps = dict(graph.types), list[Step]()
    for step in graph.steps:
        if isinstance(step, Call) and step.loop and step.callee in lent:
            given: list[Value] = []
            for param, value in lent[step.callee].inputs.items():
                path = f"{step.path}.{param.name}"
                foreign.setdefault(path, Value(path, "param", value.span, frozen=value.frozen))
                types[foreign[path]] = lent[step.callee].graph.types[value]
                given.append(foreign[path])
            steps.append(_giving(step, tuple(given)))
        else:
            steps.append(step)
    return replace(graph, steps=tuple(steps), types=types, foreign=tuple(foreign.values()))


def _giving(call: Call, given: tuple[Value, ...]) -> Call:
    """A call over an axis that is given more, the same in all rounds."""
    loop = call.loop
    assert loop
    place = len(call.inputs) - loop.states
    along = (*loop.inputs[:place], *(None for _ in given), *loop.inputs[place:])
    inputs = (*call.inputs[:place], *given, *call.inputs[place:])
    return replace(call, inputs=inputs, loop=replace(loop, inputs=along))
