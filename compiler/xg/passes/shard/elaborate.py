"""A whole program on one mesh axis: every graph in every combination of states it is called in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain, count

from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, Program
from xg.ir.placement import CONSTANT, INVARIANT, State
from xg.passes.shard.block import BlockPlacer
from xg.passes.shard.calls import Placed, Placing, Request
from xg.passes.shard.errors import refuse_move


def elaborate(program: Program, axis: str) -> Program:
    """The program with the moves of one mesh axis; raises DiagnosticError."""
    main = program.main
    request = Request(main.key, _entering(main, axis), (None,) * len(main.outputs))
    elaboration = _Elaboration(program, axis)
    return elaboration.collected(elaboration.place(request))


def _entering(graph: Graph, axis: str) -> tuple[State, ...]:
    """The states of the entry's inputs: where the plan wants them, else the same everywhere."""
    states: list[State] = []
    for value in graph.inputs:
        wish = graph.wishes.get(value, {}).get(axis)
        whole = INVARIANT if graph.types[value].is_float else CONSTANT
        states.append(wish.rest if wish and wish.rest.kind == "S" else whole)
    return tuple(states)


def is_explicit(graph: Graph) -> bool:
    """Whether a block names a collective: into such nothing is inserted that sends."""
    moves = [step for step in graph.steps if isinstance(step, Apply) and step.op.family == FAMILY]
    return any(not step.op.derived and "source" not in step.attrs for step in moves)


def refuse_left_over(program: Program) -> None:
    """Raise DiagnosticError for collectives over axes that cut nothing."""
    problems = [
        refuse_move(step.outputs[0], INVARIANT, None, graph, step.attrs["over"], step.span, step)
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply) and step.op.family == FAMILY and "source" not in step.attrs
    ]
    if problems:
        raise DiagnosticError.of(*dict.fromkeys(problems))


@dataclass(slots=True)
class _Elaboration:
    program: Program
    axis: str
    done: dict[Request, Placed] = field(default_factory=dict[Request, Placed])

    def place(self, entry: Request) -> Placed:
        """A request and all that it asks for; calls may be nested deeply, so without recursion."""
        stack: list[tuple[Request, Placing]] = [(entry, self._begun(entry))]
        answer: Placed | None = None
        while stack:
            request, placing = stack[-1]
            try:
                wanted = placing.send(answer) if answer else next(placing)
            except StopIteration as finished:
                answer = self.done[request] = self._keyed(finished.value)
                stack.pop()
                continue
            answer = self.done.get(wanted)
            if answer is None:
                stack.append((wanted, self._begun(wanted)))
        return self.done[entry]

    def _begun(self, request: Request) -> Placing:
        graph = self.program.graphs[request.key]
        is_entry = request.key == self.program.entry
        return BlockPlacer(
            graph=graph,
            graphs=self.program.graphs,
            request=request,
            axis=self.axis,
            numbers=graph.sizes.bind(self.program.numbers),
            explicit=is_explicit(graph),
            is_entry=is_entry,
        ).run()

    def _keyed(self, placed: Placed) -> Placed:
        """Under a key of its own, for now a number."""
        return replace(placed, graph=replace(placed.graph, key=f"{len(self.done)}"))

    # ---- what is reached ------------------------------------------------------------------------

    def collected(self, entry: Placed) -> Program:
        """The program of what the entry calls, callees first, under readable keys."""
        by_key = {placed.graph.key: placed for placed in self.done.values()}
        order = _callees_first(entry.graph, {key: placed.graph for key, placed in by_key.items()})
        names: dict[str, str] = {}
        for graph in order:
            base = by_key[graph.key].request.key
            numbered = (f"{base} ({number})" for number in count(2))
            taken = set(names.values())
            names[graph.key] = next(name for name in chain([base], numbered) if name not in taken)
        graphs = {names[graph.key]: _renamed(graph, names) for graph in order}
        return replace(self.program, graphs=graphs, entry=names[entry.graph.key])


def _callees_first(entry: Graph, graphs: dict[str, Graph]) -> list[Graph]:
    order: dict[str, Graph] = {}
    stack = [(entry, False)]
    while stack:
        graph, ready = stack.pop()
        if graph.key in order:
            continue
        if ready:
            order[graph.key] = graph
            continue
        stack.append((graph, True))
        callees = [graphs[step.callee] for step in graph.steps if isinstance(step, Call)]
        stack.extend((callee, False) for callee in reversed(callees))
    return list(order.values())


def _renamed(graph: Graph, names: dict[str, str]) -> Graph:
    steps = tuple(
        replace(step, callee=names[step.callee]) if isinstance(step, Call) else step
        for step in graph.steps
    )
    return replace(graph, key=names[graph.key], steps=steps)
