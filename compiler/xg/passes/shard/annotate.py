"""Prepare the placement: loops get parameters once, values get the requests of a plan.

A block that is called in two places may be parallel in two ways: it becomes two graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import calling
from xg.ir.graph import Call, Graph, IRProgram, Step, Value
from xg.ir.placement import INVARIANT, AxisState, Cuts, Memory, PlacementRequest, shard
from xg.ir.walk import callees_first, moving, sort_graphs
from xg.sharding.apply_plan import PlanCache, PlannedValue, memory_of, reach_inside
from xg.sharding.local import Reach, reach_of

# Parameters of the blocks that loops call, given to all rounds by the graph that makes the loop.
#
# Ranks that have parts of a batch sum the gradient of each parameter. Inside of a loop every round
# would send its own; the gradient of an operand that all rounds share is sent once, behind them.


@dataclass(frozen=True, slots=True)
class _Lent:
    """A graph that loops call, and the inputs that take the place of parameters in its steps."""

    graph: Graph
    inputs: Mapping[Value, Value]


def lend(program: IRProgram) -> IRProgram:
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


Requests = dict[Value, dict[str, PlacementRequest]]
Core = int  # of `xg.passes.shard.propagation`


def annotate(program: IRProgram) -> IRProgram:
    """The program with placement requests on its graphs and its mesh axes in a feasible order."""
    return Annotator().of(program)


@dataclass(slots=True)
class Annotator:
    """Every graph under every reach that it is called with.

    Programs that share graphs share their requests: a graph is identified by its key, so one key
    must mean one graph in all of them, and all must have one plan, that of the `cache`. `cores` are
    those of the results.
    """

    cache: PlanCache = field(default_factory=PlanCache)
    cores: dict[str, Core] = field(default_factory=dict[str, Core])
    source: dict[str, Graph] = field(default_factory=dict[str, Graph])
    names: dict[tuple[str, Reach], str] = field(default_factory=dict[tuple[str, Reach], str])
    counts: Counter[str] = field(default_factory=Counter[str])
    waiting: list[tuple[str, Reach]] = field(default_factory=list[tuple[str, Reach]])
    graphs: dict[str, Graph] = field(default_factory=dict[str, Graph])
    gathered: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    def of(self, program: IRProgram) -> IRProgram:
        """The program with its placement requests."""
        entry, mesh = self.enter(program)
        return replace(program, graphs=sort_graphs(self.graphs, entry), entry=entry, mesh=mesh)

    def enter(self, program: IRProgram) -> tuple[str, dict[str, int]]:
        """The key of the program's entry in `graphs`, and its mesh axes in a feasible order."""
        begin = reach_of(program.plan, program.main.block_id)
        entry, gathered = self.annotate_graph(program, program.entry, begin)
        # A mesh axis that is gathered for use must cut last: only then its parts are contiguous.
        return entry, dict(sorted(program.mesh.items(), key=lambda item: item[0] in gathered))

    def annotate_graph(
        self, program: IRProgram, key: str, reach: Reach
    ) -> tuple[str, frozenset[str]]:
        """The key in `graphs` of a graph under a reach, and the mesh axes that are gathered there.

        These are gathered for use, in the graph or in one that it calls.
        """
        self.source.update(program.graphs)
        name = self.name(key, reach)
        while self.waiting:
            self.add(*self.waiting.pop())
        return name, self._gathered_axes(name)

    def _gathered_axes(self, entry: str) -> frozenset[str]:
        def new(key: str) -> list[str]:
            callees = (call.callee for call in self.graphs[key].calls)
            return [callee for callee in callees if callee not in self.gathered]

        for key in callees_first([entry], new) if entry not in self.gathered else ():
            graph = self.graphs[key]
            below = (self.gathered[call.callee] for call in graph.calls)
            self.gathered[key] = _own_gathered_axes(graph).union(*below)
        return self.gathered[entry]

    def name(self, key: str, reach: Reach) -> str:
        """The key of a graph under a reach; the first keeps its own."""
        if (key, reach) not in self.names:
            self.counts[key] += 1
            others = self.counts[key]
            self.names[key, reach] = f"{key} #{others}" if others > 1 else key
            self.waiting.append((key, reach))
        return self.names[key, reach]

    def add(self, key: str, reach: Reach) -> None:
        """Add the graph with its placement requests, and its calls."""
        graph, name = self.source[key], self.names[key, reach]
        requests = _by_hand(graph) | _planned(self.cache.of(graph, reach))
        for value in graph.foreign:
            path, _, inside = str(value.name).partition(".")
            call = next(step for step in graph.named_calls() if step.path == path)
            callee = self.source[call.callee]
            lent = {str(v.name): v for v in callee.param_values()}[inside]
            below = self._below(call, reach)
            placement_requests = _planned(self.cache.of(callee, below)).get(lent)
            if placement_requests:
                requests[value] = placement_requests
        callees = [self.name(call.callee, self._below(call, reach)) for call in graph.calls]
        self.graphs[name] = replace(
            calling(graph, name, callees),
            placement_requests=requests,
            memory=self._memory(graph, reach),
        )
        if key in self.cache.shared.cores:
            self.cores[name] = self.cache.shared.cores[key]

    def _memory(self, graph: Graph, reach: Reach) -> dict[str, Memory]:
        """Whether a plan has values computed again, by their names, and all of them."""
        if not any(entry.memory for entry in reach.here):
            return {}
        said = memory_of(graph, reach)
        for value in graph.foreign:
            path, _, inside = str(value.name).partition(".")
            call = next(step for step in graph.named_calls() if step.path == path)
            lent = memory_of(self.source[call.callee], self._below(call, reach)).get(inside)
            said |= {str(value.name): lent} if lent else {}
        return said

    def _below(self, call: Call, reach: Reach) -> Reach:
        return reach_inside(reach, call, self.source[call.callee])


def _planned(values: Iterable[PlannedValue]) -> Requests:
    """The requests of a plan; a mesh axis of the plan that does not cut a value replicates it."""
    placings = ((planned.value, planned.placing) for planned in values)
    return {
        value: _cut(placing.rest, placing.use, sorted(placing.over))
        for value, placing in placings
        if placing.over
    }


def _by_hand(graph: Graph) -> Requests:
    """The requests of shapes in the block. A shape that is not divided makes none."""
    return {value: _cut(cuts, cuts, cuts) for value, cuts in graph.layouts.items()}


def _cut(rest: Cuts, use: Cuts, over: Mapping[str, int] | list[str]) -> dict[str, PlacementRequest]:
    requests: dict[str, PlacementRequest] = {}
    for axis in over:
        resting, used = _state(rest, axis), _state(use, axis)
        requests[axis] = PlacementRequest(resting, None if resting == used else used)
    return requests


def _state(cuts: Cuts, axis: str) -> AxisState:
    return shard(cuts[axis]) if axis in cuts else INVARIANT


def _own_gathered_axes(graph: Graph) -> frozenset[str]:
    return frozenset(
        axis
        for requests in graph.placement_requests.values()
        for axis, request in requests.items()
        if request.use is not None
    )
