"""Every tensor of a compilation under a key that another compilation of it has too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from xg.cost.communication import Pass
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.ir.labels import place_names, saved_names
from xg.ir.parameters import join
from xg.ir.placement import PARTIAL, Placement, local_shape
from xg.ir.tensor import TensorType, spell_shape
from xg.ir.walk import level_by_level
from xg_pages.diff.steps import (
    NOTHING,
    Making,
    Operand,
    of_call,
    of_input,
    of_param,
    of_step,
    places_in,
)

Key = tuple[Pass, str, str]


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor as one rank holds it, a term of a sum over `terms`.

    `shape` is as people read it, `dims` are the same without sizes that the file defines. `where`
    is the way to its block, ``layers.*.attn``; `maker` the glyph of its producer, or its role.
    `value` is the forward value that it is, or is the gradient of. `shown` is what figure and code
    call it, where the file does not: of ``SiLU_1`` ``Y_1``. `making` is how that maker makes it.
    """

    direction: Pass
    where: str
    name: str
    shape: str
    dims: str
    terms: tuple[str, ...]
    maker: str
    line: int
    value: Value
    shown: str
    making: Making = NOTHING

    @property
    def key(self) -> Key:
        """The identity of the edge, the same in another compilation."""
        return self.direction, self.where, self.name

    @property
    def state(self) -> tuple[str, tuple[str, ...], str, Making]:
        """The properties of an edge that may differ between two compilations."""
        return self.dims, self.terms, self.maker, self.making


def edges(program: IRProgram) -> Mapping[Key, Edge]:
    """The edges of a program, in its order; of a placed one as its ranks hold them.

    A value that is moved is one edge, as it was before.
    """
    by_key: dict[Key, Edge] = {}
    for where, graph in called_graphs(program):
        shown = saved_names(program, graph.key)
        for edge in (*_forward(where, graph, program, shown), *_backward(where, graph, program)):
            by_key.setdefault(edge.key, edge)
    return by_key


def old_edges(old: IRProgram, new: IRProgram) -> Mapping[Key, Edge]:
    """The edges of an old program, unnamed ones and operands under their names in the new one."""
    found = {edge.key: edge for edge in _as_named(edges(old).values(), old, new)}
    others = edges(new)
    ours, theirs = _operands(found.values()), _operands(others.values())
    for key in found.keys() & others.keys():
        edge, making = found[key], others[key].making
        known = ours.get(edge.where, set()), theirs.get(edge.where, set())
        found[key] = replace(edge, making=edge.making.as_in(making, *known))
    return found


def _operands(some: Iterable[Edge]) -> dict[str, set[Operand]]:
    """All that may be an operand, by the way to its block."""
    found: dict[str, set[Operand]] = {}
    for edge in some:
        found.setdefault(edge.where, set()).add((edge.name, edge.value.name is not None))
    return found


def old_moved_edges(old: IRProgram, new: IRProgram) -> Sequence[Edge]:
    """The results of the moves of an old program's entry block, under their names in the new."""
    return list(_as_named(moved_edges(old).values(), old, new))


def _as_named(some: Iterable[Edge], old: IRProgram, new: IRProgram) -> Iterator[Edge]:
    graphs = dict(reversed([*called_graphs(new)]))
    places = {
        where: places_in(graphs[where], graph)
        for where, graph in reversed([*called_graphs(old)])
        if where in graphs
    }

    def named(name: str, where: str) -> str:
        place, mark, rest = name.partition("'")
        return places.get(where, {}).get(place, place) + mark + rest

    for edge in some:
        operands = tuple(
            (name if is_named else named(name, edge.where), is_named)
            for name, is_named in edge.making.operands
        )
        edge = replace(edge, making=replace(edge.making, operands=operands))
        is_named = edge.value.name is not None
        yield edge if is_named else replace(edge, name=named(edge.name, edge.where))


def moved_edges(program: IRProgram) -> Mapping[Value, Edge]:
    """The results of the entry block's moves, each as the edge that was moved, newly placed."""
    graph = program.main
    origins = {value: _borrowed(graph, value) for value in graph.param_values()}
    origins |= {edge.value: edge for edge in _forward("", graph, program, {})}
    moved: dict[Value, Edge] = {}
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.family == FAMILY:
            value, origin = step.outputs[0], origins[step.inputs[0]]
            placement = graph.placements.get(value, {})
            shape, dims = _shapes(graph, graph.types[value], placement)
            lies = replace(origin, shape=shape, dims=dims, terms=_terms(placement))
            moved[value] = origins[value] = lies
    return moved


def _borrowed(graph: Graph, param: Value) -> Edge:
    """Return the edge of a parameter that may be a called block's, as ``bert.E``."""
    edge = _edge(graph, param, "", "param")
    where, _, name = edge.name.rpartition(".")
    return replace(edge, where=where, name=name)


def called_graphs(program: IRProgram) -> Iterator[tuple[str, Graph]]:
    """Every graph with the way to it, callers first; a row is one call."""

    def below(use: tuple[str, Graph]) -> Iterator[tuple[str, Graph]]:
        for call in use[1].named_calls():
            path = call.path if call.count is None else f"{call.path}.*"
            yield join(use[0], path), program.graphs[call.callee]

    return level_by_level([("", program.main)], below)


def _forward(
    where: str, graph: Graph, program: IRProgram, shown: Mapping[Value, str]
) -> Iterator[Edge]:
    places = place_names(graph)
    operands = _operand_names(graph, places)
    for value in graph.inputs:
        making = of_input(value, operands, graph)
        yield replace(_edge(graph, value, where, "input"), making=making)
    for param in graph.params:
        making = of_param(param, graph)
        yield replace(_edge(graph, param.value, where, "param"), making=making)
    for step in graph.steps:
        if isinstance(step, Apply) and step.op.family == FAMILY:
            continue
        maker = step.path if isinstance(step, Call) else step.op.glyph
        taken = tuple(operands[value] for value in step.inputs)
        for index, value in enumerate(step.outputs):
            if value not in places:
                continue
            if isinstance(step, Call):
                making = of_call(step, index, taken, graph, program.graphs[step.callee])
            else:
                making = of_step(step, index, taken, graph)
            edge = _edge(graph, value, where, maker, places[value])
            yield replace(edge, shown=shown.get(value, edge.name), making=making)


def _operand_names(graph: Graph, places: Mapping[Value, str]) -> Mapping[Value, Operand]:
    """The name of every value; one that is moved as before."""
    found: dict[Value, Operand] = {}
    for value in (*graph.inputs, *graph.param_values()):
        found[value] = (str(value.name), True)
    for step in graph.steps:
        for value in step.outputs:
            if isinstance(step, Apply) and step.op.family == FAMILY:
                found[value] = found[step.inputs[0]]
            else:
                name = value.name or places.get(value, "")
                found[value] = (name, value.name is not None)
    return found


def _edge(graph: Graph, value: Value, where: str, maker: str, place: str = "") -> Edge:
    placement = graph.placements.get(value, {})
    shapes = _shapes(graph, graph.types[value], placement)
    name, line = value.name or place, value.span.line
    return Edge("forward", where, name, *shapes, _terms(placement), maker, line, value, name)


def _backward(where: str, graph: Graph, program: IRProgram) -> Iterator[Edge]:
    """The whole gradient of every named edge."""
    backward = program.backwards.get(graph.key)
    if backward is None:
        return
    for value, total in backward.totals.items():
        if value.name is None:
            continue
        placement = backward.placements.get(total, {})
        shapes = _shapes(graph, backward.types[total], placement)
        name, line = f"d{value.name}", value.span.line
        yield Edge("backward", where, name, *shapes, _terms(placement), "", line, value, name)


def _shapes(graph: Graph, type_: TensorType, placement: Placement) -> tuple[str, str]:
    """As people read it, and without defined sizes."""
    shape = type_.shape
    for axis, state in placement.items():
        shape = local_shape(shape, state, axis)
    dims = tuple(graph.sizes.expand(dim) for dim in shape)
    return spell_shape(graph.sizes.fold_shape(shape)), spell_shape(dims)


def _terms(placement: Placement) -> tuple[str, ...]:
    return tuple(axis for axis, state in placement.items() if state == PARTIAL)
