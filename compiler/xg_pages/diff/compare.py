"""Two compilations edge by edge and collective by collective, and what each costs a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from enum import Enum
from hashlib import sha256
from typing import Generic, TypeVar, cast

from xg.cost.communication import Pass, Sent, total, total_bytes
from xg.cost.report import CostReport
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import Body
from xg.ir.dim import Dim
from xg.ir.graph import Apply, Call, Graph, IRProgram, Param, Value
from xg.ir.labels import place_names, saved_names
from xg.ir.placement import FAMILY, PARTIAL, Placement, local_shape
from xg.ir.tensor import Sizes, TensorType, spell_shape
from xg.ir.walk import join, level_by_level

# Match the steps of two graphs, and describe how each step makes its edges.
#
# A step that comes in front renumbers those behind it, and nothing of these has changed.


Signature = tuple[str, tuple[str, ...], tuple[str, ...]]


def places_in(new: Graph, old: Graph) -> dict[str, str]:
    """The place in the new graph of every unnamed step of the old one.

    Steps are the same that do the same with operands of the same names, in the same order; one that
    is where another one was has changed. A step that is gone has a place that no other has.
    """
    before, after = _steps(old), _steps(new)
    matcher = SequenceMatcher(None, [*map(_signature, before)], [*map(_signature, after)], False)
    pairs = dict[str, str]()
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and i_end - i == j_end - j):
            pairs |= dict(_unnamed_pairs(before[i:i_end], after[j:j_end]))
    taken = {step.place for step in after}
    for step in before:
        if step.place not in pairs and not _has_name(step):
            pairs[step.place] = f"{step.place} before" if step.place in taken else step.place
    return pairs


def _steps(graph: Graph) -> list[Apply]:
    return [step for step in graph.steps if isinstance(step, Apply) and step.op.family != FAMILY]


def _unnamed_pairs(before: Sequence[Apply], after: Sequence[Apply]) -> Iterator[tuple[str, str]]:
    for old, new in zip(before, after, strict=True):
        if not _has_name(old) and not _has_name(new):
            yield old.place, new.place


def _has_name(step: Apply) -> bool:
    return step.outputs[0].name is not None


def _signature(step: Apply) -> Signature:
    results = [value for value in step.outputs if value.role != "cache"]
    return step.op.glyph, _names(step.inputs[1:]), _names(results)  # the first one is on the way


def _names(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(str(value.name or "") for value in values)


# How an edge is made: from which operands, with which arguments, by which computation.


Operand = tuple[str, bool]  # what it is called, and whether the file says so
Arguments = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Making:
    """All that may differ between two edges of one operator.

    `formula` identifies the computation, which of an operator of the file its text decides.
    """

    operands: tuple[Operand, ...] = ()
    arguments: Arguments = ()
    formula: str = ""

    def as_in(self, other: Making, ours: Set[Operand], theirs: Set[Operand]) -> Making:
        """Take the other's operands where they only differ by an inserted or removed step.

        That is where the file names one of the two at most, and only one program has it.
        """
        if len(self.operands) != len(other.operands):
            return self
        pairs = zip(self.operands, other.operands, strict=True)
        operands = (a if (a[1] and b[1]) or (a in theirs and b in ours) else b for a, b in pairs)
        return replace(self, operands=tuple(operands))


NOTHING = Making()


def of_step(step: Apply, index: int, operands: tuple[Operand, ...], graph: Graph) -> Making:
    """How an operator makes one of its results."""
    arguments = _spell_arguments(dict(step.attrs), graph.sizes)
    return Making(operands, arguments, _formula(step.body(graph.types), index, graph.sizes))


def of_call(
    call: Call, index: int, operands: tuple[Operand, ...], graph: Graph, callee: Graph
) -> Making:
    """How a call makes one of its results: the block, its sizes, and how often it is called."""
    found: dict[str, object] = {"block": callee.title, "count": call.count, **call.sizes}
    if call.loop:
        found |= {"rounds": call.loop.length, "reversed": call.loop.reverse or None}
        found |= {"along": call.loop.inputs, "stacked along": call.loop.outputs}
    result = callee.output_names[index] if index < len(callee.output_names) else str(index)
    return Making(operands, _spell_arguments({**found, "result": result}, graph.sizes))


def of_param(param: Param, graph: Graph) -> Making:
    """The start of a parameter, and whether it is trained."""
    found = {"start": param.start, "frozen": param.value.frozen or None}
    return Making(arguments=_spell_arguments(found, graph.sizes))


def of_input(value: Value, operands: Mapping[Value, Operand], graph: Graph) -> Making:
    """Describe an input: the bound of its integers, or the start and next value of a state."""
    type_ = graph.types[value]
    found: dict[str, object] = {"below": type_.range, "frozen": value.frozen or None}
    following: tuple[Operand, ...] = ()
    for carry in graph.carries:
        if carry.past is value and carry.next in operands:
            following, found["start"] = (operands[carry.next],), carry.start
    return Making(following, _spell_arguments(found, graph.sizes))


def _spell_arguments(found: Mapping[str, object], sizes: Sizes) -> Arguments:
    items = sorted(found.items())
    return tuple((key, _text(value, sizes)) for key, value in items if value is not None)


def _formula(body: Body, index: int, sizes: Sizes) -> str:
    """A word for the primitives that a result needs; shapes are no part of it."""
    order = body.order()
    places = {id(expr): str(place) for place, expr in enumerate(order)}
    words = [f"{places[id(body.outputs[index])]}"]
    operands = {id(expr): str(place) for place, expr in enumerate(body.operands)}
    for expr in order:
        words += [expr.prim, operands.get(id(expr), ""), *(places[id(arg)] for arg in expr.args)]
        words += [f"{key}={_text(value, sizes)}" for key, value in expr.attrs]
    return sha256("\n".join(words).encode()).hexdigest()[:12]


def _text(value: object, sizes: Sizes) -> str:
    """A value as people read it, without sizes that the file defines."""
    match value:
        case Dim():
            return str(sizes.expand(value))
        case Enum():
            return str(value.value)
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return ", ".join(f"{key}: {_text(each, sizes)}" for key, each in items)
        case tuple() | list():
            parts = [*cast("tuple[object, ...]", value)]
            if parts and all(isinstance(each, Dim) for each in parts):
                return spell_shape(tuple(sizes.expand(each) for each in cast("list[Dim]", parts)))
            return ", ".join(_text(each, sizes) for each in parts)
        case _:
            return str(value)


# ---- what differs --------------------------------------------------------------------------------


def otherwise(before: Making, after: Making, maker: str) -> Iterator[str]:
    """The differences between two edges of one maker, for people."""
    if before.operands != after.operands:
        word = "goes on as" if maker == "input" else "from"
        yield f"{word} {_operand_list(after)}, was {_operand_list(before)}"
    old, new = dict(before.arguments), dict(after.arguments)
    for name in dict.fromkeys([*new, *old]):
        if old.get(name) != new.get(name):
            yield f"{name} {new.get(name, 'left out')}, was {old.get(name, 'left out')}"
    if before.formula != after.formula and before.arguments == after.arguments:
        yield f"{maker} computes something else"


def _operand_list(making: Making) -> str:
    return " and ".join(name for name, _ in making.operands) or "nothing"


# Every tensor of a compilation under a key that another compilation of it has too.


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
    found = {edge.key: edge for edge in _rename_edges(edges(old).values(), old, new)}
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
    return list(_rename_edges(moved_edges(old).values(), old, new))


def _rename_edges(some: Iterable[Edge], old: IRProgram, new: IRProgram) -> Iterator[Edge]:
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
    origins = {value: _param_edge(graph, value) for value in graph.param_values()}
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


def _param_edge(graph: Graph, param: Value) -> Edge:
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
    """Name every value; the result of a collective keeps the name of its operand."""
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
    for value, whole in backward.totals.items():
        if value.name is None:
            continue
        placement = backward.placements.get(whole, {})
        shapes = _shapes(graph, backward.types[whole], placement)
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


Thing = TypeVar("Thing", Edge, Sent)
Sending = tuple[Pass, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: its name, the program of a rank, the whole with its moves, and its costs."""

    name: str
    program: IRProgram
    placed: IRProgram | None
    report: CostReport

    @property
    def whole(self) -> IRProgram:
        """Return the program from which the edges are read."""
        return self.placed or self.program


@dataclass(frozen=True, slots=True)
class Change(Generic[Thing]):
    """A thing before and after; one of both is None where it appeared or vanished."""

    before: Thing | None
    after: Thing | None

    @property
    def present(self) -> Thing:
        """The thing after, or before if it vanished."""
        thing = self.after or self.before
        assert thing
        return thing

    @property
    def made_otherwise(self) -> tuple[str, ...]:
        """The differences in the making of an edge whose maker is the same, for people."""
        before, after = self.before, self.after
        if not isinstance(before, Edge) or not isinstance(after, Edge):
            return ()
        return (
            ()
            if before.maker != after.maker
            else tuple(otherwise(before.making, after.making, after.maker))
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """All that differs. `costs` holds every amount of a rank, before and after.

    `sizes` are the numbers that both have and that differ.
    """

    before: Side
    after: Side
    edges: tuple[Change[Edge], ...]
    collectives: tuple[Change[Sent], ...]
    costs: Mapping[str, tuple[Dim, Dim]]
    sizes: Mapping[str, tuple[int, int]]

    @property
    def is_empty(self) -> bool:
        """Whether edges, collectives and sizes are the same."""
        return not self.edges and not self.collectives and not self.sizes


def compare(before: Side, after: Side) -> Difference:
    """The differences of `after` from `before`."""
    old, new = old_edges(before.whole, after.whole), edges(after.whole)
    changed = [change for change in _pair_changes(old, new) if _differs(change)]
    sending = _pair_changes(_collectives(before), _collectives(after))
    return Difference(
        before,
        after,
        tuple(changed),
        tuple(change for change in sending if _sends_otherwise(change)),
        dict(zip(_NAMES, zip(_amounts(before), _amounts(after), strict=True), strict=True)),
        _sizes(before, after),
    )


def _sizes(before: Side, after: Side) -> dict[str, tuple[int, int]]:
    old, new = before.report.numbers, after.report.numbers
    both = sorted(old.keys() & new.keys())
    return {name: (old[name], new[name]) for name in both if old[name] != new[name]}


_Key = TypeVar("_Key")


def _pair_changes(old: Mapping[_Key, Thing], new: Mapping[_Key, Thing]) -> Iterator[Change[Thing]]:
    """Yield a change for every key, in the new order; keys that only the old has come last."""
    for key, thing in new.items():
        yield Change(old.get(key), thing)
    yield from (Change(thing, None) for key, thing in old.items() if key not in new)


def _differs(change: Change[Edge]) -> bool:
    if change.before is None or change.after is None:
        return True
    return change.before.state != change.after.state


# ---- collectives ---------------------------------------------------------------------------------


def _collectives(side: Side) -> dict[Sending, Sent]:
    """Merge a side's collectives of the same pass, block, kind, axis and value."""
    sending: dict[Sending, Sent] = {}
    for part in side.report.sent:
        key = (part.direction, part.block, part.kind, part.over, part.of)
        sent = sending.get(key)
        if sent:
            payload, calls = sent.payload + part.payload, sent.calls + part.calls
            part = replace(sent, payload=payload, calls=calls)
        sending[key] = part
    return sending


def _sends_otherwise(change: Change[Sent]) -> bool:
    old, new = change.before, change.after
    return old is None or new is None or (old.payload, old.calls) != (new.payload, new.calls)


# ---- costs ---------------------------------------------------------------------------------------

_NAMES = (
    "parameters", "forward FLOPs", "backward FLOPs", "saved bytes", "held bytes",
    "sent naive", "sent ring", "ring bytes",
)  # fmt: skip


def _amounts(side: Side) -> tuple[Dim, ...]:
    report = side.report
    return (
        *report.total.dims(),
        report.memory.total,
        total(report.sent, "naive"),
        total(report.sent, "ring"),
        total_bytes(report.sent),
    )
