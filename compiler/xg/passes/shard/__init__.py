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
from xg.ir.content import prune, with_parts
from xg.ir.graph import Apply, Call, Graph, IRProgram
from xg.ir.moves import communicators
from xg.ir.tensor import Sizes
from xg.passes.shard.added_steps import AddedSteps, added_steps
from xg.passes.shard.annotate import Annotator, annotate
from xg.passes.shard.axis_placement import TornApart
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
from xg.sharding.divisibility import check_parts, refuse_replicated_pads

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
