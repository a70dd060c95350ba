"""Check that ranks can share the sizes that they cut, and pad the sizes that they cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import lcm, prod
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError, Span
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.content import Recent
from xg.ir.dim import Dim, Scalar, as_scalar, number
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.placement import (
    ROUNDS,
    axis_of,
    is_zigzag,
    local_shape,
    ordered_axis,
    shard,
    zigzag_axes,
)
from xg.ir.size_checks import Numbers, axes_of, numbers_of, value_of
from xg.ir.tensor import TensorType, spell_shape
from xg.ir.walk import Symbols, instances
from xg.sharding.apply_plan import PlacedValue, placed_values
from xg.sharding.errors import CannotPad, NotDivisible
from xg.sharding.local import cut_sizes

# Sizes that a plan pads: zeros fill them up to what the ranks of a mesh can share.
#
# The padded program is the same at a larger size. Its pads must change nothing: no gradient of a
# parameter has any there, and no sum takes any in. Tables are read at places of the true size; a
# product keeps the columns of its weight apart; a loss leaves out what is no class. Everything else
# is refused.


LOSS: Final = "cross_entropy"
APART: Final = frozenset({"transpose", "broadcast", "cast", "add", "scale", "tanh", "multiply"})


@dataclass(frozen=True, slots=True)
class PaddedCut:
    """A size of the entry that a line pads, and the number of parts that ranks cut it into."""

    name: str
    parts: int
    span: Span


def padded_cuts(program: IRProgram, reached: Iterable[PlacedValue]) -> Iterator[PaddedCut]:
    """Every size that the plan may pad; raises DiagnosticError for a formula that is uneven."""
    known = program.all_numbers
    for each in reached:
        said = each.planned
        numbers = numbers_of(said.graph, each.symbols, known)
        for dim, axes in said.cuts:
            entry = next((e for e in said.entries if e.pads and e.over & {*axes}), None)
            if entry is None:
                continue
            parts = prod(program.mesh.get(axis, 1) for axis in axes)
            name, number = dim.substitute(each.symbols).name, value_of(dim, numbers)
            if name is not None:
                yield PaddedCut(name, parts, entry.span)
            elif number is not None and number % parts:
                reason = f"{said.graph.sizes.fold(dim)} is no size of its own"
                raise DiagnosticError.of(CannotPad(entry.span, str(said.value.name), reason))


def padded_numbers(program: IRProgram, reached: Iterable[PlacedValue]) -> dict[str, int]:
    """The numbers of the sizes that the plan pads, with their padding.

    Raises DiagnosticError where a rank would have pads alone.
    """
    known, found = program.all_numbers, dict[str, PaddedCut]()
    for cut in padded_cuts(program, reached):
        before = found.setdefault(cut.name, cut)
        found[cut.name] = replace(cut, parts=lcm(before.parts, cut.parts))
    padded: dict[str, int] = {}
    for name, cut in found.items():
        number = known.get(name)
        if number is None or number % cut.parts == 0:
            continue
        part = -(-number // cut.parts)
        if part * (cut.parts - 1) >= number:
            reason = f"of {number} in {cut.parts} parts the last would be pads alone"
            raise DiagnosticError.of(CannotPad(cut.span, name, reason))
        padded[name] = part * cut.parts
    return padded


def pad(program: IRProgram) -> IRProgram:
    """The program at its padded sizes; raises DiagnosticError where pads would change a result."""
    plan = program.plan
    if program.lengths or plan is None or not plan.pads:
        return program
    placed = tuple(placed_values(program))
    padded = padded_numbers(program, placed)
    if not padded:
        return program
    uses = list(instances(program))
    for name in padded:
        _refuse_elsewhere(program, name, uses)
    lengths = {name: program.all_numbers[name] for name in padded}
    whole = _whole_tables(uses, lengths, {(p.planned.graph.key, p.planned.value) for p in placed})
    graphs = {
        key: _pad_graph(_with_true_rows(graph, whole), padded, lengths)
        for key, graph in program.graphs.items()
    }
    numbers = {**program.numbers, **padded}
    return replace(program, graphs=graphs, numbers=numbers, lengths=lengths)


Tables = Mapping[tuple[str, Value], int]  # by graph and parameter, with the number of their rows


def _whole_tables(
    uses: Iterable[tuple[Graph, Symbols]],
    lengths: Mapping[str, int],
    placed: Collection[tuple[str, Value]],
) -> Tables:
    """Find the tables that only ids below a padded size read, and that no line of a plan places.

    Every rank has such a table whole, without pads: no id reads one.
    """
    found: dict[tuple[str, Value], set[str]] = {}
    for graph, symbols in uses:
        own = {param.value for param in graph.params}
        tables = {step.inputs[1] for step in graph.steps if _is_lookup(step)} & own
        others = {*graph.outputs}
        for step in graph.steps:
            others |= {*(step.inputs[:1] if _is_lookup(step) else step.inputs)}
        for value in tables - others:
            rows = graph.types[value].shape[0].substitute(symbols).name or ""
            found.setdefault((graph.key, value), set()).add(rows)
    return {
        each: lengths[name]
        for each, names in found.items()
        if each not in placed and len(names) == 1
        for name in names
        if name in lengths
    }


def _is_lookup(step: Step) -> bool:
    return isinstance(step, Apply) and step.op.name == "embedding"


def _with_true_rows(graph: Graph, tables: Tables) -> Graph:
    """A graph whose whole tables have as many rows as without pads."""
    own = {
        value: replace(type_, shape=(number(tables[graph.key, value]), *type_.shape[1:]))
        for value, type_ in graph.types.items()
        if (graph.key, value) in tables
    }
    if not own:
        return graph
    params = tuple(replace(p, type=own.get(p.value, p.type)) for p in graph.params)
    return replace(graph, types={**graph.types, **own}, params=params)


def refuse_replicated_pads(placed: IRProgram) -> None:
    """Raise DiagnosticError for what has padded sizes and is whole on every rank.

    Only the cuts of an array say its true length, by which its zeros are added and cut off.
    """
    main = placed.main
    if not placed.lengths:
        return
    values: list[tuple[Graph, Value, Symbols]] = [(main, value, {}) for value in main.outputs]
    values += [
        (g, value, symbols) for g, symbols in instances(placed) for value in g.param_values()
    ]
    whole: list[tuple[Graph, Value, int, str]] = []
    over: dict[str, tuple[str, ...]] = {}
    for graph, value, symbols in values:
        shape = graph.types[value].shape
        states = graph.placements.get(value, {}).items()
        for place, dim in enumerate(shape, -len(shape)):
            name = dim.substitute(symbols).name or ""
            if name in placed.lengths:
                axes = tuple(axis for axis, state in states if state == shard(place))
                if axes:
                    over.setdefault(name, axes)
                else:
                    whole.append((graph, value, place, name))
    for graph, value, place, name in whole:
        reason = f"{value.name} has it whole on every rank"
        way = _cut_too(graph, value, place, over.get(name, ()))
        raise DiagnosticError.of(CannotPad(value.span, name, reason, *way))


def _cut_too(graph: Graph, value: Value, place: int, axes: Sequence[str]) -> tuple[str, ...]:
    """The lines of a plan that share an array of a padded size among some mesh axes."""
    if not axes or any(graph.placements[value][axis].kind == "S" for axis in axes):
        return ()
    shape = graph.types[value].shape
    part = shape
    for axis in axes:
        part = local_shape(part, shard(place), axis)
    line, all_ = (spell_shape(graph.sizes.fold_shape(each)) for each in (part, shape))
    gathered = f", or `{value.name} {line} -> {all_}`" if value.role == "param" else ""
    return (f"pads are cut off only what ranks share: write `{value.name} {line}`{gathered}",)


def _pad_graph(graph: Graph, padded: Mapping[str, int], lengths: Mapping[str, int]) -> Graph:
    own = graph.sizes.local
    padded = {name: number for name, number in padded.items() if name not in own}
    defaults = {n: padded.get(n, number) for n, number in graph.sizes.defaults.items()}
    steps = tuple(_with_classes(step, graph, lengths) for step in graph.steps)
    return replace(graph, sizes=replace(graph.sizes, defaults=defaults), steps=steps)


def _with_classes(step: Step, graph: Graph, lengths: Mapping[str, int]) -> Step:
    """A loss that knows how many of its logits are classes."""
    if not isinstance(step, Apply) or step.op.name != LOSS:
        return step
    name = graph.types[step.inputs[0]].shape[-1].name or ""
    if name not in lengths:
        return step
    return replace(step, attrs={**step.attrs, "classes": as_scalar(lengths[name])})


# ---- where pads would change something -----------------------------------------------------------


def _refuse_elsewhere(program: IRProgram, name: str, uses: Sequence[tuple[Graph, Symbols]]) -> None:
    """Raise DiagnosticError for a use of a size that its pads would change."""
    plan, main = program.plan, program.main
    assert plan is not None
    entry = next(entry for entry in plan.entries if entry.pads)
    if any(ROUNDS in each.path for each in plan.entries):
        raise DiagnosticError.of(CannotPad(entry.span, name, "the plan has stages of a pipeline"))
    if any(name in dim.symbols() for dim in main.sizes.definitions.values()):
        raise DiagnosticError.of(CannotPad(entry.span, name, "other sizes are made of it"))
    for graph, symbols in uses:
        names = {n for n, dim in symbols.items() if name in dim.symbols()}
        names |= set() if name in symbols else {name}
        for value in graph.inputs:
            if graph is main and _places(graph.types[value], names):
                reason = f"the input {value.name} has that many"
                raise DiagnosticError.of(CannotPad(value.span, name, reason))
        for step in graph.steps:
            if isinstance(step, Call):
                if step.rounds and names & {*step.rounds.symbols()}:
                    reason = f"{step.path} has as many rounds"
                    raise DiagnosticError.of(CannotPad(step.span, name, reason))
            elif not all(_keeps_apart(step, graph, names)) or _is_other_loss(
                step, graph, name, names
            ):
                at = step.outputs[0].name
                said = f"{step.op.glyph} : {at}" if at else step.op.glyph
                raise DiagnosticError.of(CannotPad(step.span, name, f"{said} would take pads in"))


def _keeps_apart(step: Apply, graph: Graph, names: set[str]) -> Iterator[bool]:
    """Whether a step takes no pads in, along each axis of each operand."""
    types = [graph.types[value] for value in step.inputs]
    places = [_places(type_, names) for type_ in types]
    yield not any(_mentions(attr, names) for attr in step.attrs.values())
    if not any(places):
        return
    yield all(
        type_.shape[at].name is not None
        for type_, found in zip(types, places, strict=True)
        for at in found
    )
    out = _places(graph.types[step.outputs[0]], names)
    kind = step.op.name
    if kind == LOSS:
        yield places[0] == [-1] and not any(places[1:])
    elif kind == "embedding":
        table = next(at for at, found in enumerate(places) if found)
        yield places[table] == [-2] and not out
    elif kind == "matmul":
        yield sum(map(len, places)) == 1 == len(out)
    else:
        yield kind in APART and bool(out)


def _is_other_loss(step: Apply, graph: Graph, name: str, names: set[str]) -> bool:
    """Whether a loss is of classes that its block calls otherwise, or that have this name only."""
    if step.op.name != LOSS:
        return False
    classes = graph.types[step.inputs[0]].shape[-1].name
    return (classes == name) != (classes in names)


def _places(type_: TensorType, names: set[str]) -> list[int]:
    """The axes whose length mentions a size, counted from the end."""
    shape = type_.shape
    return [at - len(shape) for at, dim in enumerate(shape) if names & {*dim.symbols()}]


def _mentions(attr: object, names: set[str]) -> bool:
    """Whether an attribute is a number that depends on a size."""
    return isinstance(attr, Scalar) and any(name in str(attr) for name in names)


TRIED_AT_MOST: Final = 1_024  # numbers of a size, for a help

# A graph by its key, or by what all graphs with the same values have, and the numbers of its sizes.
PartsKey = tuple[str | int, frozenset[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class _Uneven:
    """A size of a graph that ranks cannot share, and the problem that says so."""

    graph: Graph
    symbols: Mapping[str, Dim]
    dim: Dim
    problem: NotDivisible

    def number(self, known: Numbers) -> int | None:
        """The size with other numbers."""
        return value_of(self.dim, numbers_of(self.graph, self.symbols, known))


def check_shares(
    program: IRProgram, found: Iterable[PlacedValue] | None = None, *, advises: bool = True
) -> None:
    """Raise DiagnosticError with every size that mesh axes cut into unequal parts.

    `found` are the values to check, by default all that the plan reaches. Where it `advises`, it
    looks for other numbers of the sizes.
    """
    all_numbers = program.all_numbers
    reached = tuple(placed_values(program) if found is None else found)
    each = (*_by_shape(program, all_numbers), *_by_plan(program, reached, all_numbers))
    _refuse(program, each, reached, advises=advises)


def _refuse(
    program: IRProgram,
    found: Iterable[_Uneven],
    reached: Sequence[PlacedValue] = (),
    *,
    advises: bool,
) -> None:
    """Raise DiagnosticError with the problems that there are, each once."""
    uneven: dict[tuple[str, int, object], _Uneven] = {}
    for each in found:
        problem = each.problem
        uneven.setdefault((problem.size, problem.number, problem.axes), each)
    if uneven:
        apart = list(uneven.values())
        problems = [each.problem for each in apart]
        if advises:
            cuts = cuts_of(program, reached)
            problems = [
                replace(
                    each.problem,
                    near=_near(program, each, apart),
                    others=tuple(_other_sizes(program, each.problem, cuts)),
                )
                for each in apart
            ]
        raise DiagnosticError.of(*problems)


def _other_sizes(
    program: IRProgram, problem: NotDivisible, cuts: Iterable[tuple[Dim, tuple[str, ...]]]
) -> Iterator[tuple[int, int]]:
    """The sizes that the last mesh axis of a problem cuts, and their ranks on other axes."""
    last, known = problem.axes[-1][0], program.all_numbers
    for dim, over in cuts:
        axes = [axis_of(each) for each in over]
        number = value_of(dim, known) if last in axes else None
        if number is not None:
            beside = (program.mesh[axis] for axis in axes if axis != last and axis in program.mesh)
            yield number, prod(beside) * (2 if any(map(is_zigzag, over)) else 1)


def _near(
    program: IRProgram, one: _Uneven, all_: Sequence[_Uneven]
) -> tuple[str, tuple[int, ...]] | None:
    """A dim, and the next numbers of it with which ranks share all that depends on it."""
    known = program.all_numbers
    graphs = [(*each, list(axes_of(each[0], numbers=True))) for each in instances(program)]

    def fits(name: str, number: int) -> bool:
        tried = {**known, name: number}
        sizes = [(each.number(tried), each) for each in all_]
        if any(n is None or (n != e.problem.number and n % e.problem.ranks) for n, e in sizes):
            return False
        return not (one.number(tried) or 1) % one.problem.ranks and all(
            value_of(axis, numbers)
            for graph, symbols, axes in graphs
            for numbers in [numbers_of(graph, symbols, tried)]
            for axis in axes
            if all(symbol in numbers for symbol in axis.symbols())
        )

    for name in one.dim.substitute(one.symbols).symbols():
        if name in known and name not in program.mesh:
            at = known[name]
            below, above = range(at - 1, 0, -1), range(at + 1, at * one.problem.ranks + 1)
            ways = (islice(each, TRIED_AT_MOST) for each in (below, above))
            next_ = [next((n for n in way if fits(name, n)), None) for way in ways]
            if any(next_):
                return name, tuple(number for number in next_ if number)
    return None


def check_parts(
    program: IRProgram,
    cores: Mapping[str, int],
    fine: Recent[PartsKey, bool],
    starts: Sequence[tuple[str, Mapping[str, Dim]]] | None = None,
    *,
    advises: bool = True,
) -> None:
    """Raise DiagnosticError with every inner size that moves cut into unequal parts.

    It looks at the entries and all that they call, or begins at the graphs of `starts`.

    Placements are inferred: heads may be sharded where the plan names only the width. Graphs in
    `fine` (by their `cores`, under these sizes) were checked before; those that are fine now are
    added.
    """
    uneven: list[_Uneven] = []
    all_numbers = program.all_numbers
    new: set[PartsKey] = set()
    chunks = [(ordered_axis(axis, (axis,)), 2) for axis in zigzag_axes(program.plan)]
    for graph, symbols in instances(program, starts):
        numbers = numbers_of(graph, symbols, all_numbers)
        key = cores.get(graph.key, graph.key), frozenset((*numbers.items(), *chunks))
        if key in new or (graph.key in cores and fine.get(key)):
            continue
        new.add(key)
        sharded: dict[tuple[Dim, tuple[str, ...]], Value] = {}  # each once, at its first value
        for value, placement in graph.placements.items():
            cuts = {axis: s.axis for axis, s in placement.items() if s.kind == "S"}
            for cut in cut_sizes(graph.types[value].shape, cuts) if cuts else ():
                sharded.setdefault(cut, value)
        for (dim, axes), value in sharded.items():
            uneven += _shared(graph, symbols, dim, axes, numbers, program, value.span)
    _refuse(program, uneven, advises=advises)
    for key in new:
        fine.put(key, True)


def cuts_of(
    program: IRProgram, found: Iterable[PlacedValue]
) -> tuple[tuple[Dim, tuple[str, ...]], ...]:
    """Every size that mesh axes cut, in the sizes of the entry: those that the checks ask for.

    A mesh axis is named with the order of its ranks, which in zigzag have two chunks each.
    A search evaluates them for thousands of meshes.
    """
    cuts: dict[tuple[Dim, tuple[str, ...]], None] = {}
    for graph, symbols in instances(program):
        layouts = list(graph.layouts.items())
        for value, placement in graph.placements.items():
            layouts.append(
                (value, {axis: s.axis for axis, s in placement.items() if s.kind == "S"})
            )
        for value, cut in layouts:
            for dim, axes in cut_sizes(graph.types[value].shape, cut):
                cuts[dim.substitute(symbols), axes] = None
    for each in found:
        for dim, axes in each.planned.cuts:
            cuts[dim.substitute(each.symbols), tuple(axes)] = None
    zigzag = zigzag_axes(program.plan)
    return tuple((dim, tuple(ordered_axis(each, zigzag) for each in axes)) for dim, axes in cuts)


def _by_shape(program: IRProgram, known: Numbers) -> Iterator[_Uneven]:
    """Sizes that shapes of the file cut into unequal parts."""
    if not any(graph.layouts for graph in program.graphs.values()):
        return
    for graph, symbols in instances(program):
        numbers = numbers_of(graph, symbols, known)
        for value, cuts in graph.layouts.items():
            for dim, axes in cut_sizes(graph.types[value].shape, cuts):
                yield from _shared(graph, symbols, dim, axes, numbers, program, value.span)


def _by_plan(
    program: IRProgram, reached: Iterable[PlacedValue], known: Numbers
) -> Iterator[_Uneven]:
    """Sizes that the plan cuts into unequal parts."""
    for value in reached:
        said = value.planned
        numbers = numbers_of(said.graph, value.symbols, known)
        for dim, axes in said.cuts:
            span = next((e.span for e in said.entries if e.over & set(axes)), said.value.span)
            yield from _shared(said.graph, value.symbols, dim, axes, numbers, program, span)


def _shared(
    graph: Graph,
    symbols: Mapping[str, Dim],
    dim: Dim,
    axes: Sequence[str],
    numbers: Numbers,
    program: IRProgram,
    span: Span,
) -> Iterator[_Uneven]:
    number = value_of(dim, numbers)
    sizes = tuple((axis, program.mesh[axis]) for axis in axes if axis in program.mesh)
    if zigzag_axes(program.plan) & {*axes}:
        sizes = (("2", 2), *sizes)  # chunks of a rank
    if number is not None and number % prod(size for _, size in sizes):
        problem = NotDivisible(span, str(graph.sizes.fold(dim)), number, sizes)
        yield _Uneven(graph, symbols, dim, problem)
