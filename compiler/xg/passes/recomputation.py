"""Forward steps that a backward pass runs again, in place of values kept for it.

A plan says of values, of what a parameter is gathered to, and of whole calls, whether they are
computed `again` or kept. A value is computed again from kept ones, right before it is read first,
by the steps of the forward pass: the same operators on the same numbers, drawing the same random
ones, so that every gradient is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.collective import FAMILY
from xg.ir.content import made
from xg.ir.graph import Apply, Backward, Graph, Program, Step, Value
from xg.ir.parameters import moves, moving
from xg.ir.plan import WHOLE, Memory
from xg.ir.tensor import TensorType


def recompute(program: Program) -> Program:
    """The program with backward passes that compute again what its plan says."""
    if not any(graph.memory for graph in program.graphs.values()):
        return program
    moved = moves(program)
    backwards = {
        key: _Again(backward, moved).backward_graph() if program.graphs[key].memory else backward
        for key, backward in program.backwards.items()
    }
    return replace(program, backwards=backwards)


def memories(graph: Graph) -> dict[Value, Memory]:
    """The words of a plan about the values of a graph, where it has any.

    A move, and a step that only lays out its operand, follows this; of parameters it gives what a
    whole call says nothing about, since they are stored anyway.
    """
    said: dict[Value, Memory] = {}
    words: dict[str, Memory] = {
        name: "again" if word == "again" else "keep" for name, word in graph.memory.items()
    }  # what is held for all passes is kept for this one
    of_params = set(graph.param_values())
    for value in of_params:
        said[value] = words.get(str(value.name), "keep")
    for step in graph.steps:
        first = made(step)[0]
        inherited: Memory | None = None
        if isinstance(step, Apply) and step.op.family in (FAMILY, "layout"):
            inherited = said.get(step.inputs[0]) if len(step.inputs) == 1 else None
            if of_params.issuperset(step.inputs):
                of_params.update(step.outputs)
        named = words.get(str(first.name)) if first.name else None
        memory = named or inherited or words.get(WHOLE)
        if memory is not None:
            said.update(dict.fromkeys(made(step), memory))
            for value in made(step)[1:]:
                if value.role == "edge" and (own := words.get(str(value.name))):
                    said[value] = own
    return said


@dataclass(slots=True)
class _Again:
    """Writes one backward pass once more."""

    backward: Backward
    moved: Container[str]  # the graphs that move running statistics
    makers: dict[Value, Step] = field(init=False)
    said: Mapping[Value, Memory] = field(init=False)
    there: set[Value] = field(init=False)
    saved: set[Value] = field(default_factory=set[Value])
    steps: list[Step] = field(default_factory=list[Step])
    copies: dict[Value, TensorType] = field(default_factory=dict[Value, TensorType])

    def __post_init__(self) -> None:
        """Find what is there when the backward pass begins."""
        graph = self.backward.forward
        kept = {call.saved for call in graph.calls if call.callee in self.moved}
        self.saved.update(kept, (each.target for each in moving(graph)))
        self.makers = {value: step for step in graph.steps for value in made(step)}
        self.said = memories(graph)
        self.there = {*graph.param_values(), *self.backward.inputs, *kept}

    def backward_graph(self) -> Backward:
        """The backward pass, which needs fewer values saved."""
        for step in self.backward.steps:
            for value in step.reads:
                self._provide(value)
            self.steps.append(step)
            self.there.update(step.outputs)
        graph, steps = self.backward.forward, tuple(self.steps)
        order = [*graph.inputs, *(v for step in graph.steps for v in made(step))]
        values = {value for step in steps for value in (*step.reads, *step.outputs)} | self.saved
        types = {value: graph.types[value] for value in values if value in graph.types}
        return replace(
            self.backward,
            steps=steps,
            saved=tuple(value for value in order if value in self.saved),
            types={**types, **self.backward.types, **self.copies},
        )

    def _is_kept(self, value: Value) -> bool:
        """Whether a forward value is kept: it is an input, or said to be, or was kept before."""
        said = self.said.get(value)
        if value not in self.makers or said == "keep":
            return True
        return said is None and value in self.backward.saved

    def _provide(self, wanted: Value) -> None:
        """Make a value available: as it was kept, or by the steps that lead to it."""
        waiting = [wanted]
        while waiting:
            value = waiting[-1]
            if value in self.there:
                waiting.pop()
            elif self._is_kept(value):
                self.saved.add(value)
                self.there.add(value)
            else:
                step = self.makers[value]
                missing = [each for each in step.inputs if each not in self.there]
                if missing:
                    waiting += reversed(missing)
                    continue
                self.steps.append(replace(step, again=True, outputs=self._outputs(step)))
                self.there.update(made(step))

    def _outputs(self, step: Step) -> tuple[Value, ...]:
        """The values of a step that runs again: others in the place of those that were kept."""
        outputs = list(step.outputs)
        for place, value in enumerate(outputs):
            if value in self.saved:
                outputs[place] = Value(value.name, value.role, value.span)
                self.copies[outputs[place]] = self.backward.forward.types[value]
        return tuple(outputs)
