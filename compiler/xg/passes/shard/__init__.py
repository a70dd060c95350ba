"""Programs of many ranks: the placement of every value, the collectives, one rank's program.

    annotate    writes on every value the placement that plans and shapes ask for
    place       inserts casts and collectives into the forward pass, one mesh axis after the other
    (differentiate as always: on global tensors a move is the identity, its transpose a move)
    check       types both passes once more; gradients must be dual to their values
    join        makes one move of those that follow each other over several mesh axes
    localize    writes the program of one rank

Source: docs/parallel.md; the states are those of `xg.ir.placement`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.content import frozen, prune, with_parts
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.moves import communicators
from xg.ir.placement import FAMILY, AxisState
from xg.ir.tensor import Sizes, TensorType
from xg.passes.shard.annotate import Annotator, annotate
from xg.passes.shard.axis_placement import ELEMENTWISE, TornApart
from xg.passes.shard.errors import refuse_again
from xg.passes.shard.localize import Unsound, join
from xg.passes.shard.localize import check as check_axis
from xg.passes.shard.localize import localize as localize_axis
from xg.passes.shard.propagation import (
    Core,
    Elaboration,
    PlacedBlocks,
    Replaced,
    SeenByCallers,
    named,
    refuse_left_over,
)
from xg.passes.shard.resharding import Bodies
from xg.sharding.divisibility import check_parts, refuse_replicated_pads
from xg.sharding.primitive_rules import IllTyped

# Find steps in a row whose addition is the only difference between two graphs.


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


__all__ = [
    "AddedSteps",
    "added_steps",
    "Core",
    "PlacedBlocks",
    "Placer",
    "Replaced",
    "SeenByCallers",
    "Unsound",
    "Annotator",
    "annotate",
    "check",
    "join",
    "localize",
    "write_local_steps",
    "place",
]


def place(program: IRProgram) -> IRProgram:
    """The whole program with its moves, on every axis of its mesh; raises DiagnosticError."""
    return Placer().place(program)


@dataclass(slots=True, eq=False)
class Placer:
    """Places programs that share graphs, each graph once for all of them.

    A graph is known by its key, so one key must mean one graph in all programs; their numbers, and
    the mesh with its order, must be the same.
    """

    blocks: PlacedBlocks = field(default_factory=PlacedBlocks)
    elaborations: list[Elaboration] = field(default_factory=list[Elaboration])
    sources: dict[str, Graph] = field(default_factory=dict[str, Graph])
    sizes: dict[int, tuple[Sizes, Sizes]] = field(default_factory=dict[int, tuple[Sizes, Sizes]])
    is_torn: bool = False  # some of what was asked is not in `elaborations`

    def check(
        self, program: IRProgram, cores: Mapping[str, Core]
    ) -> tuple[IRProgram, Mapping[str, Core]]:
        """Place a program; its graphs keep internal keys. Raises DiagnosticError.

        `cores` are those of its graphs, as far as they have any, and so are those returned.
        """
        placed, elaborations = self._place_program(program, cores)
        return placed, elaborations[-1].made if elaborations else {}

    def check_replacements(
        self, program: IRProgram, cores: Mapping[str, Core], replaced: Sequence[Replaced]
    ) -> tuple[IRProgram, Mapping[str, Core]]:
        """The result of `check` for some graphs of a program and what they call.

        Each is in the place of another that was placed. Raises SeenByCallers where their callers
        have to be placed again too, and DiagnosticError.
        """
        placed = self._add_mesh_numbers(program)
        known = self.elaborations[0].source if self.elaborations else {}
        if self.is_torn or (program.mesh and any(each.before not in known for each in replaced)):
            raise SeenByCallers  # nothing is known of what they ask
        for elaboration in self.elaborations:
            try:
                placed, replaced = elaboration.replacing(placed, cores, replaced)
            except TornApart:
                raise SeenByCallers from None
            cores = elaboration.made
        refuse_left_over(placed)
        check_parts(placed, cores, self.blocks.parts, [(r.now, r.symbols) for r in replaced])
        return placed, cores

    def place_added_steps(self, key: str, added: AddedSteps) -> list[Graph]:
        """Return the added steps by themselves, placed as in a graph that lacked them.

        They take a value in the states that it has, and so does all that reads it. Raises
        SeenByCallers where something moves.
        """
        keys = {key}
        for elaboration in self.elaborations:
            asked = (each for request, each in elaboration.done.items() if request.key in keys)
            keys = {each.graph.key for each in asked}
        axes = [elaboration.axis for elaboration in self.elaborations]
        graphs = [self.elaborations[-1].graphs[each] for each in keys] if axes else []
        bodies = self.blocks.bodies
        if (
            self.is_torn
            or not graphs
            or not all(added.fits(graph, axes, bodies) for graph in graphs)
        ):
            raise SeenByCallers
        return [added.as_graph(graph, axes, bodies) for graph in graphs] if len(axes) > 1 else []

    def fits_numbers(self, numbers: Mapping[str, int]) -> bool:
        """Whether all programs so far would be placed the same with other numbers."""
        each = (d for elaboration in self.elaborations for d in elaboration.divisions.values())
        return all(divisions.fits_numbers(numbers) for divisions in each)

    def place(self, program: IRProgram) -> IRProgram:
        """The program on global shapes with its moves; raises DiagnosticError."""
        placed, elaborations = self._place_program(program, {})
        if problems := list(refuse_again(placed, is_compiled=True)):
            raise DiagnosticError.of(*problems)
        return named(placed, elaborations)

    def _place_program(
        self, program: IRProgram, cores: Mapping[str, Core]
    ) -> tuple[IRProgram, list[Elaboration]]:
        whole = self._add_mesh_numbers(program)
        elaborations = self.elaborations = self.elaborations or self._elaborations(program)
        while True:
            try:
                placed = _elaborate(whole, elaborations, cores)
                break
            except TornApart as torn:
                self.is_torn = True
                whole, elaborations = _taken_apart(whole, torn.parts), self._elaborations(program)
                cores = {}
        refuse_left_over(placed)
        refuse_replicated_pads(placed)
        check_parts(placed, elaborations[-1].made if elaborations else {}, self.blocks.parts)
        return placed, elaborations

    def _add_mesh_numbers(self, program: IRProgram) -> IRProgram:
        """The program with the numbers of its mesh."""
        graphs = {key: self._knowing(graph, program) for key, graph in program.graphs.items()}
        return replace(program, graphs=graphs, numbers={**program.numbers, **program.mesh})

    def _elaborations(self, program: IRProgram) -> list[Elaboration]:
        return [Elaboration(axis, self.blocks) for axis in program.mesh]

    def _knowing(self, graph: Graph, program: IRProgram) -> Graph:
        """Add the mesh's numbers to the sizes of a graph, once per key."""
        if graph.key not in self.sources:
            self.sources[graph.key] = replace(graph, sizes=self._sizes(graph.sizes, program))
        return self.sources[graph.key]

    def _sizes(self, sizes: Sizes, program: IRProgram) -> Sizes:
        """Sizes with the numbers of the mesh; most graphs of a program have the same."""
        if id(sizes) not in self.sizes:
            defaults = {**sizes.defaults, **program.mesh}
            bound = replace(sizes, defaults=defaults, mesh=tuple(program.mesh))
            self.sizes[id(sizes)] = sizes, bound
        return self.sizes[id(sizes)][1]


def _elaborate(
    program: IRProgram, elaborations: Iterable[Elaboration], cores: Mapping[str, Core]
) -> IRProgram:
    for elaboration in elaborations:
        program, cores = elaboration.of(program, cores), elaboration.made
    return program


def _taken_apart(program: IRProgram, parts: tuple[Apply, ...]) -> IRProgram:
    """The program with a fused step replaced by the steps that it was made from."""

    def steps(graph: Graph) -> Iterator[Apply | Call]:
        for step in graph.steps:
            fused = isinstance(step, Apply) and step.parts == parts
            yield from parts if fused else (step,)

    def apart(graph: Graph) -> Graph:
        return replace(graph, steps=tuple(steps(graph)), types=with_parts(graph.types, parts))

    return replace(program, graphs={key: apart(graph) for key, graph in program.graphs.items()})


def check(program: IRProgram) -> IRProgram:
    """A placed program that was differentiated, its backward placed as well; raises Unsound."""
    for axis in program.mesh:
        program = check_axis(program, axis)
    return program


def localize(program: IRProgram) -> IRProgram:
    """The program of one rank, of a placed program that was checked."""
    local = write_local_steps(program)
    return replace(local, communicators=communicators(local))


def write_local_steps(program: IRProgram) -> IRProgram:
    """Write the steps of one rank, of a whole program or of a part of one."""
    for axis in program.mesh:
        program = localize_axis(program, axis)
    graphs = {key: prune(graph) for key, graph in program.graphs.items()}
    backwards = {
        key: replace(prune(backward), forward=graphs[key])
        for key, backward in program.backwards.items()
    }
    return replace(program, graphs=graphs, backwards=backwards)
