"""Sizes that a plan pads: zeros fill them up to what the ranks of a mesh can share.

The padded program is the same at a larger size. Its pads must change nothing: no gradient of a
parameter has any there, and no sum takes any in. Tables are read at places of the true size; a
product keeps the columns of its weight apart; a loss leaves out what is no class. Everything else
is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import lcm, prod
from typing import Final

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.diagnostics.source import Span
from xg.ir.graph import Apply, Call, Graph, IRProgram, Step, Value
from xg.ir.plan import ROUNDS
from xg.ir.scalar import Scalar, as_scalar
from xg.ir.size_checks import numbers_of, value_of
from xg.ir.tensor import TensorType
from xg.ir.walk import Symbols, instances
from xg.sharding.apply_plan import PlacedValue, placed_values
from xg.sharding.errors import CannotPad

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
    padded = padded_numbers(program, placed_values(program))
    if not padded:
        return program
    uses = list(instances(program))
    for name in padded:
        _refuse_elsewhere(program, name, uses)
    lengths = {name: program.all_numbers[name] for name in padded}
    graphs = {key: _padded(graph, padded, lengths) for key, graph in program.graphs.items()}
    numbers = {**program.numbers, **padded}
    return replace(program, graphs=graphs, numbers=numbers, lengths=lengths)


def refuse_whole(placed: IRProgram) -> None:
    """Raise DiagnosticError for what has padded sizes and is whole on every rank."""
    main = placed.main
    if not placed.lengths:
        return
    values: list[tuple[Graph, Value, Symbols]] = [(main, value, {}) for value in main.outputs]
    values += [
        (g, value, symbols) for g, symbols in instances(placed) for value in g.param_values()
    ]
    for graph, value, symbols in values:
        cut = {s.axis for s in graph.placements.get(value, {}).values() if s.kind == "S"}
        shape = graph.types[value].shape
        for place, dim in enumerate(shape):
            name = dim.substitute(symbols).name or ""
            if name in placed.lengths and place - len(shape) not in cut:
                reason = f"{value.name} has it whole on every rank"
                raise DiagnosticError.of(CannotPad(value.span, name, reason))


def _padded(graph: Graph, padded: Mapping[str, int], lengths: Mapping[str, int]) -> Graph:
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
