"""Record a run of a program at small sizes, so that the page can compute real numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, Final, cast

import numpy as np

from xg.cost.cost import cost
from xg.cost.report import report
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import Program, compile_project, compile_typed
from xg.frontend.plan_in_choices import attach_plan as under_plan
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.typed import Settings, dims_of, type_partly
from xg.ir import prim
from xg.ir.body import topological
from xg.ir.dim import ONE, Dim, DimError, Scalar, number
from xg.ir.graph import Apply, IRProgram
from xg.ir.placement import axis_of
from xg.ir.prim import RANDOM, Expr, ShapeError
from xg.ir.tensor import Shape
from xg.ir.walk import level_by_level
from xg.sharding.local import ShardSpec, cuts
from xg.verify.proof_sizes import SizeFacts, case, mesh_sizes, size_facts, verification_sizes
from xg.verify.reference import random as invented
from xg.verify.reference.evaluate import Array, Context, NumberSystem
from xg.verify.reference.interpret import Interpreter, Record
from xg.verify.reference.random import Draw
from xg_pages.document import packed_data
from xg_pages.explorer.facts import BlockUse, Formulas, axis_rules, block_uses
from xg_runtime.errors import InputError
from xg_runtime.ranks.grid import Grid

# A run written down: what is drawn, then every step of both passes with its primitives.
#
# The reference interpreter itself goes through the program, on slots in the place of arrays. Calls,
# repetitions and loops leave no trace: a tape is one step after the other, and a page needs to know
# the primitives only.


Data = list[object]


@dataclass(frozen=True, slots=True, eq=False)
class TapeSlot:
    """The place of an array on a tape; NumPy's functions on it are written down.

    The interpreter asks what it is given for its `dtype`.
    """

    tape: Tape
    place: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __array_function__(
        self, function: object, types: object, args: Sequence[Any], kwargs: Mapping[str, object]
    ) -> TapeSlot:
        """The slot of a result: the interpreter itself begins at zeros, takes and stacks."""
        slots, *numbers = args
        slots = [slots] if isinstance(slots, TapeSlot) else slots
        return self.tape.apply(_FUNCTIONS[function], slots, *numbers)


Function = Callable[..., Expr]  # of expressions, and numbers


def _add(parts: Sequence[Expr]) -> Expr:
    return parts[0] + parts[1]


def _zeros(parts: Sequence[Expr]) -> Expr:
    return prim.broadcast(prim.const(0.0), parts[0].shape)


def _take(parts: Sequence[Expr], place: int, axis: int) -> Expr:
    (x,) = parts
    axis %= x.rank
    position = prim.cut(x, axis - x.rank, number(place), number(place + 1))
    return prim.reshape(position, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _stack(parts: Sequence[Expr], axis: int) -> Expr:
    shape = list(parts[0].shape)
    axis %= len(shape) + 1
    shape.insert(axis, ONE)
    wide = [prim.reshape(part, tuple(shape)) for part in parts]
    return prim.concat(wide, axis - len(shape))


_FUNCTIONS: Mapping[object, Function] = {np.zeros_like: _zeros, np.take: _take, np.stack: _stack}


@dataclass(slots=True)
class Tape:
    """The drawn arrays, and the steps. A body that is used again is there once."""

    drawn: list[tuple[Draw, ShardSpec]] = field(default_factory=list[tuple[Draw, ShardSpec]])
    bodies: dict[str, int] = field(default_factory=dict[str, int])
    steps: list[list[int]] = field(default_factory=list[list[int]])
    keys: dict[int, str] = field(default_factory=dict[int, str])
    places: int = 0

    def arithmetic(self) -> NumberSystem:
        """The number system that the interpreter computes with."""
        add = cast("Callable[[Array, Array], Array]", self._sum)
        return NumberSystem({}, add, cast("Callable[..., list[Array]]", self.compute))

    def draw(
        self, draws: Mapping[str, Draw], cuts: Mapping[str, ShardSpec], mesh: Mapping[str, int]
    ) -> dict[str, Array]:
        """Put drawn arrays on the tape and return their slots; a rank gets its shards."""
        slots: dict[str, TapeSlot] = {}
        for name, draw in draws.items():
            shape = list(draw.shape)
            for axis, over, *_ in cuts.get(name, ()):
                shape[axis] //= mesh[axis_of(over)]
            self.drawn.append((draw, cuts.get(name, ())))
            slots[name] = self._slot(tuple(shape), whole=draw.below is not None)
        return cast("dict[str, Array]", slots)

    def compute(
        self,
        outputs: Sequence[Expr],
        operands: Mapping[str, TapeSlot],
        context: Context,
        order: Iterable[Expr] | None = None,
    ) -> list[TapeSlot]:
        """Write a body down in the place of `evaluate`, and return the slots of its results."""
        names = list(operands)
        expressions = list(order or topological(outputs))
        found = {
            id(e): names.index(str(e.attr("name"))) for e in expressions if e.prim == "operand"
        }
        nodes: list[Data] = []
        for expr in expressions:
            if expr.prim != "operand":
                found[id(expr)] = len(names) + len(nodes)
                nodes.append(_node(expr, [found[id(arg)] for arg in expr.args], context))
        if context.key is not None and any(expr.prim in RANDOM for expr in expressions):
            self.keys[len(self.steps)] = str(context.key)
        body = [len(names), nodes, [found[id(output)] for output in outputs]]
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        place = self.bodies.setdefault(text, len(self.bodies))
        self.steps.append([place, *(operands[name].place for name in names)])
        return [self._slot(context.shape(output.shape)) for output in outputs]

    def apply(self, function: Function, slots: Sequence[TapeSlot], *numbers: int) -> TapeSlot:
        """A step that is no operator: a function of primitives."""
        names = {f"x_{place}": slot for place, slot in enumerate(slots)}
        exprs = [prim.operand(n, tuple(map(number, s.shape))) for n, s in names.items()]
        (result,) = self.compute([function(exprs, *numbers)], names, Context({}))
        return result

    def _sum(self, a: TapeSlot, b: TapeSlot) -> TapeSlot:
        return self.apply(_add, [a, b])

    def _slot(self, shape: tuple[int, ...], *, whole: bool = False) -> TapeSlot:
        self.places += 1
        dtype = np.dtype(np.int64 if whole else np.float64)
        return TapeSlot(self, self.places - 1, shape, dtype)

    def data(self) -> dict[str, object]:
        """The tape for the page's script."""
        return {
            "drawn": [_drawn(draw, cuts) for draw, cuts in self.drawn],
            "bodies": [json.loads(text) for text in self.bodies],
            "steps": self.steps,
            "keys": {str(step): key for step, key in self.keys.items()},
        }


def _drawn(draw: Draw, cuts: ShardSpec) -> Data:
    how: object = draw.below if draw.below is not None else [draw.deviation, draw.offset]
    return [draw.place, list(draw.shape), how, *([[list(cut) for cut in cuts]] if cuts else [])]


def _node(expr: Expr, args: list[int], context: Context) -> Data:
    """A primitive, its arguments and what else it needs, all in numbers.

    Its shape is there unless it is that of the arguments after broadcasting.
    """
    attrs = {name: _plain(value, context) for name, value in expr.attrs}
    shapes = [arg.shape for arg in expr.args]
    same = expr.args and expr.shape == _broadcast(shapes)
    shape = [] if same else [list(context.shape(expr.shape))]
    return [expr.prim, *args, *shape, *([attrs] if attrs else [])]


def _broadcast(shapes: Sequence[Shape]) -> Shape | None:
    try:
        return reduce(prim.broadcast_shapes, shapes)
    except ShapeError:
        return None


def _plain(value: object, context: Context) -> object:
    match value:
        case Dim():
            return context.size(value)
        case Scalar():
            result = context.number(value)
            return result if np.isfinite(result) else str(result).replace("inf", "Infinity")
        case tuple():
            return [_plain(each, context) for each in cast("tuple[object, ...]", value)]
        case _:
            return value


SEED: Final = 0
WORK_AT_MOST: Final = 10**8  # operations, and scalars


@dataclass(frozen=True, slots=True)
class Played:
    """A run of one device, or of every rank, which all do the same.

    `at` are the coordinates of each rank on the mesh. Of a block the `slots`, in the order of its
    values, are those of its first call, of a repeated one those of the first round; None is a value
    that is no tensor.
    """

    tape: Tape = field(default_factory=Tape)
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    at: Sequence[Mapping[str, int]] = ()
    slots: Mapping[int, Sequence[int | None]] = field(default_factory=dict[int, list[int | None]])

    def data(self) -> dict[str, object]:
        """The runs for the page's script, and how it computes their numbers."""
        if not self.at:
            return {"runs": []}
        many = len(self.at) > 1
        runs = [
            {
                "name": f"rank {number}" if many or at else "one device",
                "at": dict(at),
                "sizes": dict(self.sizes),
            }
            for number, at in enumerate(self.at)
        ]
        slots = {str(place): list(slots) for place, slots in self.slots.items()}
        tape = {"seed": SEED, "slots": slots, **self.tape.data()}
        return {"runs": runs, "tape": packed_data(tape)}


def play(small: Program, uses: Sequence[BlockUse]) -> Played:
    """One run of a program whose sizes all have numbers; `uses` are its blocks.

    Parameters, inputs and cotangents are drawn, and dropout is on. A rank has its parts of what is
    drawn for one device.
    """
    graphs, alone, tape = small.graphs, small.on_one_device.graphs, Tape()
    if graphs.lengths:
        return Played()  # pages draw whole arrays, and padded ones have zeros in them
    mesh = graphs.mesh
    where = cuts(graphs)
    params = tape.draw(invented.parameter_draws(alone), where, mesh)
    inputs = tape.draw(invented.input_draws(alone), where, mesh)
    cotangents = tape.draw(invented.cotangent_draws(alone), where, mesh)
    interpreter = Interpreter(graphs, params, SEED, arithmetic=tape.arithmetic())
    _, record = interpreter.forward(inputs)
    interpreter.backward(record, cotangents)
    first = first_records(record)
    slots = {use.place: _slots(use, first[use.graph.key]) for use in uses}
    grid = Grid(mesh)
    at = [grid.coordinates(number) for number in range(grid.count)]
    return Played(tape, dict(sorted(record.sizes.items())), at, slots)


def is_small(program: IRProgram) -> bool:
    """Whether all sizes have numbers, and small ones: a file may write large numbers itself."""
    numbers = program.main.sizes.bind(program.numbers)
    total = cost(program).total
    try:
        work = [dim.evaluate(numbers) for dim in (total.forward, total.parameters, total.saved)]
    except (KeyError, DimError):
        return False
    return max(work) <= WORK_AT_MOST


def first_records(record: Record) -> dict[str, Record]:
    """The record of the first call of every block, callers before callees."""

    def below(run: Record) -> Iterator[Record]:
        return (runs[0] for runs in run.calls.values() if runs)

    runs = level_by_level([record], below, lambda run: run.graph.key)
    return {run.graph.key: run for run in runs}


def _slots(use: BlockUse, record: Record) -> list[int | None]:
    arrays = cast("Mapping[Any, TapeSlot]", record.reverse or record.values)
    return [arrays[value].place if value in arrays else None for value in use.values()]


# Compile a program at small sizes, and compare the costs of one device and of all its plans.


RANKS_AT_MOST: Final = 8  # that a page has numbers of
FEW: Final = 2  # along every axis, where the mesh has more in all


def facts_of(program: IRProgram) -> SizeFacts:
    """Return the constraints on sizes; for a rank's program, on its local parts."""
    graphs = {key: replace(graph, layouts={}) for key, graph in program.graphs.items()}
    return size_facts(replace(program, graphs=graphs, plan=None))


def words_of(settings: Settings) -> dict[str, str | int]:
    """The options among settings."""
    return {name: word for name, word in settings.items() if isinstance(word, str)}


def proof_sizes(program: Program, settings: Settings) -> Mapping[str, int]:
    """Return sizes to prove a program at, if any, together with the mesh of a parallel one."""
    if program.distributed is None:
        return verification_sizes(program.graphs, {})
    block, mesh = program.graphs.main.block, _mesh(program)
    try:
        sizes = case(program.project, block, _plan(program), {**words_of(settings), **mesh}).sizes
    except (DiagnosticError, InputError):
        return mesh
    return {**sizes, **mesh}


def at_small_sizes(
    program: Program, settings: Settings, proven: Mapping[str, int], starts: Mapping[str, int]
) -> Program | None:
    """The program at the sizes of its proof; where the file forbids these, at its own.

    Nothing if the file allows no small ones.
    """
    block, outline = program.graphs.main.block, _outline(block_uses(program.graphs))
    declared = sorted(dims_of(program.project, block))
    free = [name for name in declared if name not in program.graphs.main.sizes.defaults]
    choices = (
        {name: proven[name] for name in declared if name in proven},
        {name: proven[name] for name in free if name in proven},
        {name: starts[name] for name in free if name in starts},
    )
    fixed = {**words_of(settings), **_mesh(program)}
    for numbers in choices:
        try:
            small = compile_project(program.project, block, {**fixed, **numbers}, _plan(program))
        except DiagnosticError:  # they do not go together
            continue
        uses = block_uses(small.graphs)
        if is_small(small.graphs) and _outline(uses) == outline:
            return small
    return None


def _plan(program: Program) -> str | None:
    plan = program.graphs.plan
    return plan.name if plan else None


def _mesh(program: Program) -> dict[str, int]:
    """The mesh that it is run on: its own if that has few ranks."""
    mesh = program.graphs.mesh
    if prod(mesh.values()) <= RANKS_AT_MOST:
        return dict(mesh)
    return {axis: min(size, FEW) for axis, size in mesh.items()}


def _outline(uses: Sequence[BlockUse]) -> list[list[str]]:
    """Which steps there are: ranks may send otherwise at sizes that they share otherwise."""
    return [
        [step.op.glyph if isinstance(step, Apply) else "" for _, step in use.steps()]
        for use in uses
    ]


# One device and all plans of a file side by side, as formulas: what one rank has to do.


@dataclass(frozen=True, slots=True)
class Planned:
    """The block of a page under a plan, or on one device, and what it costs there."""

    name: str
    program: Program
    amounts: tuple[Dim, ...]
    facts: SizeFacts


def compile_plans(program: Program, settings: Settings) -> Iterator[Planned]:
    """Compile a program's block under every plan that places something in it, one at a time.

    One device comes first, without a name; there is nothing where there are no plans, and of a
    program that is one rank's already.
    """
    if program.distributed is not None:
        return
    project = program.project
    names = plans_of(project, settings)
    if not names:
        return
    typed, mistakes = type_partly(project, program.graphs.main.block, settings)
    for name in ("", *names) if not mistakes else ():
        try:
            has_ranks = name or typed.is_parallel
            given = under_plan(typed, project, name or None, settings) if has_ranks else typed
            one = compile_typed(given, project)
        except DiagnosticError:  # it is of other blocks, or its ranks cannot share these sizes
            continue
        yield Planned(name, one, _amounts(one), facts_of(one.graphs))


def plans_data(plans: Sequence[Planned], formulas: Formulas) -> list[dict[str, object]]:
    """Return each plan's name, title, costs as in `xg cost --plan '*'`, and axis rules."""
    return [
        {
            "name": one.name,
            "title": one.program.graphs.plan.title if one.program.graphs.plan else "",
            "costs": [formulas.place(dim) for dim in one.amounts],
            "whole": axis_rules(one.program.graphs, formulas, one.facts)["whole"],
        }
        for one in plans
    ]


def mesh_of(*programs: Program) -> dict[str, int]:
    """The mesh axes of some programs and their ranks, as the files declare them one by one."""
    sizes = {axis: size for one in programs for axis, size in one.graphs.mesh.items()}
    return {axis: sizes[axis] for axis in mesh_sizes(programs[0].project) if axis in sizes}


def _amounts(program: Program) -> tuple[Dim, ...]:
    """Parameters, bytes held in training, FLOPs, elements sent naively and around a ring."""
    sizes = program.graphs.main.sizes
    compared = report(program.graphs, program.distributed).compared
    return tuple(sizes.expand(dim) for dim in compared)
