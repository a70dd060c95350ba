"""Find steps in a row whose addition is the only difference between two graphs."""

from __future__ import annotations

from collections.abc import Sequence

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.content import frozen
from xg.ir.graph import Apply, Call, Graph, Step, Value
from xg.ir.placement import FAMILY, AxisState
from xg.ir.tensor import TensorType
from xg.passes.shard.axis_placement import ELEMENTWISE
from xg.passes.shard.resharding import Bodies
from xg.sharding.primitive_rules import IllTyped

Same = dict[Value, Value]  # of the graph before, with what has its place now


@dataclass(frozen=True, slots=True)
class AddedSteps:
    """Elementwise steps after a value of the older graph; later steps read the result instead.

    `name` is that of the result if it is another than the value's. `reads` says how many operands
    the value was, and `leaves` how many outputs.
    """

    behind: Value
    type: TensorType
    steps: tuple[Apply, ...]
    name: str | None
    reads: int
    leaves: int

    def fits(self, placed: Graph, axes: Sequence[str], bodies: Bodies) -> bool:
        """Whether nothing of a graph, placed on mesh axes, is moved where the steps are added."""
        placement = placed.placements.get(self.behind, {})
        states = [placement[axis] for axis in axes if axis in placement]
        if len(states) < len(axes):
            return False
        readers = [step for step in placed.steps if self.behind in step.inputs]
        if sum(step.inputs.count(self.behind) for step in readers) != self.reads:
            return False
        if any(isinstance(step, Apply) and step.op.family == FAMILY for step in readers):
            return False
        leaves = placed.outputs.count(self.behind) == self.leaves
        return leaves and all(self._keeps(state, bodies) for state in states)

    def as_graph(self, placed: Graph, axes: Sequence[str], bodies: Bodies) -> Graph:
        """The steps in a graph of their own, placed as they are in one that they fit."""
        placement = {axis: placed.placements[self.behind][axis] for axis in axes}
        placements = {self.steps[0].inputs[0]: placement}
        for step in self.steps:
            typed = [
                bodies.infer_states(step, [self.type], [state]) for state in placement.values()
            ]
            for value, *states in zip(step.outputs, *typed, strict=True):
                placements[value] = dict(zip(axes, states, strict=True))
        types = dict.fromkeys(placements, self.type)
        only = replace(placed, steps=self.steps, types=types, placements=placements)
        return replace(only, params=(), outputs=(), aliases=())

    def _keeps(self, state: AxisState, bodies: Bodies) -> bool:
        """Whether the steps compute parts as they are, each rank its own."""
        if state.kind in "PM":
            return False
        try:
            typed = [bodies.infer_states(step, [self.type], [state]) for step in self.steps]
        except IllTyped:
            return False
        cuts = (each for _, *caches in typed for each in caches if each.kind == "S")
        return all(result == state for result, *_ in typed) and all(cut == state for cut in cuts)


def added_steps(before: Graph, now: Graph) -> AddedSteps | None:
    """The steps that were added, if that is all that plans can see."""
    added = len(now.steps) - len(before.steps)
    if added < 1 or _is_special(before) or _is_special(now) or _frame(before) != _frame(now):
        return None
    same = dict(zip(_inputs_and_params(before), _inputs_and_params(now), strict=True))
    place = 0
    while place < len(before.steps) and _match_step(place, place, before, now, same):
        place += 1
    steps = now.steps[place : place + added]
    behind = next((v for v, other in same.items() if other in steps[0].inputs), None)
    if behind is None or any(behind in step.inputs for step in before.steps[:place]):
        return None
    first = same[behind]
    result = None if behind.role == "param" else _result(first, steps, now)
    if result is None:
        return None
    same[behind] = result
    rest = range(place, len(before.steps))
    if not all(_match_step(each, each + added, before, now, same) for each in rest):
        return None
    renamed = {value for value, other in same.items() if value.name != other.name}
    if renamed - {behind} or first.name not in (None, behind.name):
        return None
    if tuple(same[value] for value in before.outputs) != now.outputs:
        return None
    if tuple((name, same[value]) for name, value in before.aliases) != now.aliases:
        return None
    return AddedSteps(
        behind=behind,
        type=before.types[behind],
        steps=tuple(step for step in steps if isinstance(step, Apply)),
        name=result.name if result.name != behind.name else None,
        reads=sum(step.inputs.count(behind) for step in before.steps),
        leaves=before.outputs.count(behind),
    )


def _result(value: Value, steps: Sequence[Step], graph: Graph) -> Value | None:
    """Return the result of elementwise steps in a row after a value; None if they are others."""
    for step in steps:
        if isinstance(step, Call) or step.parts or step.inputs != (value,):
            return None
        result, *caches = step.outputs
        if step.op.family not in ELEMENTWISE - {FAMILY} or any(v.role != "cache" for v in caches):
            return None
        if any(graph.types[each] != graph.types[value] for each in step.outputs):
            return None
        value = result
    return value


def _inputs_and_params(graph: Graph) -> tuple[Value, ...]:
    return (*graph.inputs, *graph.param_values())


def _frame(graph: Graph) -> tuple[object, ...]:
    """All that two graphs must have in common beside their steps."""
    given = tuple((v.role, v.frozen, v.name, graph.types[v]) for v in _inputs_and_params(graph))
    return given, graph.block_id, graph.output_names, graph.output_types, graph.sizes.structure()


def _is_special(graph: Graph) -> bool:
    """Whether it has what is seen outside, or what is placed by hand."""
    lent = graph.foreign or graph.states or graph.carries or any(c.loop for c in graph.calls)
    return bool(lent) or graph.is_cut or any(call.starts for call in graph.calls)


def _match_step(place: int, later: int, before: Graph, now: Graph, same: Same) -> bool:
    """Whether a step says the same as another; then its results are the other's."""
    one, other = before.steps[place], now.steps[later]
    if tuple(same.get(value) for value in one.inputs) != other.inputs or _step_key(
        one
    ) != _step_key(other):
        return False
    for value, result in zip(one.outputs, other.outputs, strict=True):
        if before.types[value] != now.types[result]:
            return False
        same[value] = result
    return True


def _step_key(step: Step) -> tuple[object, ...]:
    """All that a step says but its operands and the callee."""
    if isinstance(step, Call):
        return step.path, step.count, step.first, frozen(step.sizes), len(step.outputs)
    return id(step.op), frozen(step.attrs), step.parts, len(step.outputs)
