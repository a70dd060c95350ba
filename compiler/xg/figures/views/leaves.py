"""Leaves: tensors that are drawn beside the node that takes them, once for every use.

They are parameters, inputs that no node takes first, what a step finds from the one before, and
views of these that are written in place, BC_{B,S}(b) and E⊤, as the seed writes them (seed 001,
4.3.8). The numbers at which the states of a loop start are written in its box.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.richtext import RichText, StyledRun, plain, tensor
from xg.figures.views.names_from_steps import swaps_last_two
from xg.figures.views.notation import Notation, with_frozen
from xg.figures.views.steps import own_tensors, start_values
from xg.ir.graph import Apply, Graph, Value

_VIEWS: Final = ("BC", "T")


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of one graph; `views` are those that a step makes, which then is not drawn.

    Nor are the steps that make `starts`, the states of loops before the first round.
    """

    plain: frozenset[Value]
    views: Mapping[Value, Apply]
    starts: Mapping[Value, Apply]

    def __contains__(self, value: Value) -> bool:
        return value in self.plain or value in self.views

    def is_drawn(self, step: object) -> bool:
        """Return whether a step is a node of its own."""
        unseen = (*self.views.values(), *self.starts.values())
        return not any(step is one for one in unseen)

    def label(self, value: Value, notation: Notation) -> RichText:
        """Return what is written for a leaf."""
        view = self.views.get(value)
        if view is None:
            return notation.label(value)
        operand = view.inputs[0]
        if view.op.glyph == "T":
            return with_frozen(notation.label(value), operand)
        dims = notation.repeated(view)
        text = tensor(notation.symbol(operand), notation.dims(operand))
        inside = (*plain("("), *with_frozen(text, operand), *plain(")"))
        return (StyledRun("BC", sub=",".join(dims)), *inside)


def find_leaves(graph: Graph, flowing: frozenset[Value] = frozenset()) -> Leaves:
    """Find the leaves of a graph's forward pass; inputs in `flowing` are none."""
    first = {step.inputs[0] for step in graph.steps if step.inputs} | flowing
    asides = {value for value in graph.inputs if value not in first}
    past = (state.past for state in graph.states)
    leaves = frozenset({*graph.param_values(), *asides, *past})
    return Leaves(leaves, _views(graph, leaves), _starts(graph))


def _starts(graph: Graph) -> dict[Value, Apply]:
    """Find the numbers at which states start that the call does not give: they have no name."""
    states = {value for call in graph.calls for value in start_values(call)}
    return {
        value: step
        for step in graph.steps
        for value in step.outputs
        if isinstance(step, Apply)
        and step.op.glyph == "fill"
        and value in states
        and value.name is None
    }


def _views(graph: Graph, leaves: frozenset[Value]) -> dict[Value, Apply]:
    """Find views whose only use is as a later operand."""
    uses: dict[Value, list[int]] = {}
    for step in graph.steps:
        for place, value in enumerate(step.inputs):
            own = isinstance(step, Apply) and value in own_tensors(step)
            uses.setdefault(value, []).append(0 if own else place)
    return {
        step.outputs[0]: step
        for step in graph.steps
        if isinstance(step, Apply)
        and step.op.glyph in _VIEWS
        and step.inputs[0] in leaves
        and len(uses.get(step.outputs[0], ())) == 1
        and uses[step.outputs[0]][0] > 0
        and step.outputs[0] not in graph.outputs
        and (step.op.glyph == "BC" or swaps_last_two(step))
    }
