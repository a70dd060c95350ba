"""A direct interpreter of graphs, the reference for every backend: one primitive after the other.

It runs the forward graph and the backward graph on arrays, loops and calls included. Nothing is
compiled and nothing is clever. A number that a document prints can replace the computed one
(`overrides`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.ir.dim import ONE, Dim, symbol
from xg.ir.graph import Apply, Call, Graph, IRProgram, Loop, Step, Value, ports
from xg.ir.size_checks import (
    SizeSources,
    axes_with_positions,
    difference_limits,
    implied_sizes,
    size_constraints,
    sizes_of_params,
    value_of,
)
from xg.ir.tensor import Shape, TensorType
from xg.ir.walk import frozen_paths, inside, join, level_by_level
from xg.verify.reference.evaluate import (
    FLOATS,
    Context,
    Mesh,
    NumberSystem,
    Stopped,
    evaluate,
    flat_at,
)
from xg.verify.reference.random import drawing_key, key, parameter_draws
from xg_runtime.module import Array

# Arrays as a program reads them: integers widened, and numbers for its symbols by their shapes.


class BadInput(ValueError):
    """Arrays that do not fit the program, in the file's symbols."""


def bind_sizes(
    program: IRProgram, arrays: Mapping[str, Array], states: Mapping[str, Array] | None = None
) -> dict[str, int]:
    """Return a number for every symbol: from the arrays' shapes, else by default.

    Raises:
        BadInput: an array is missing, or its shape is none that it can have beside the others'.
    """
    graph = program.main
    numbers = dict(graph.sizes.bind(program.numbers))
    given = dict(_input_arrays(graph, arrays, states or {}))
    for value, array in given.items():
        for dim, length in zip(graph.types[value].shape, array.shape, strict=True):
            name, parts = graph.sizes.symbol_and_divisors(dim)
            if name is not None and name not in graph.sizes.definitions:
                numbers[name] = length * parts.evaluate(numbers)
    numbers = {**numbers, **graph.sizes.bind(_free(graph, numbers))}
    for value, array in given.items():
        for dim, length in zip(graph.types[value].shape, array.shape, strict=True):
            numbers |= _divisor(dim, length, numbers)
    shapes = {graph.types[value].shape: array.shape for value, array in given.items()}
    for path, shape in SizeSources.of(program).inner(graph).items():
        if path in arrays and arrays[path].ndim == len(shape):
            shapes.setdefault(shape, arrays[path].shape)
    numbers |= _solve_symbols(graph, shapes, numbers)
    for value, array in given.items():
        _check(graph, value, array, numbers)
    return numbers


def check_positions(program: IRProgram, numbers: Mapping[str, int]) -> None:
    """Raise BadInput for a size that a parameter or an operator can't have."""
    for name in sizes_of_params(program):
        if numbers.get(name, 1) < 1:
            raise BadInput(f"{name} = {numbers[name]}: a parameter needs at least one element")
    for limit in (*size_constraints(program), *axes_with_positions(program)):
        less, more = limit.smaller, limit.larger
        if not numbers.keys() >= {*less.symbols(), *more.symbols()}:
            continue
        smaller, larger = less.evaluate(numbers), more.evaluate(numbers)
        if larger < 1 and less == ONE:
            raise BadInput(f"{more} = {larger}: {limit.why}")
        if smaller > larger:
            excess = " is more than ".join(
                str(dim) if dim.constant is not None else f"{dim} = {number}"
                for dim, number in ((less, smaller), (more, larger))
            )
            raise BadInput(f"{excess}: {limit.why}")
    sizes = program.main.sizes
    for limit in difference_limits(program, SizeSources.of(program).implied_symbols(program.main)):
        least, length = limit.smaller.evaluate({}), value_of(limit.larger, numbers)
        if length is not None and length < least:
            raise BadInput(f"{sizes.fold(limit.larger)} = {length}: {limit.why}")


def _has_short_axes(graph: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether axes are short enough for all of S - 1 to be taken.

    A quick look before `check_positions`, as differences run a program thousands of times.
    """
    if min(sizes.values(), default=1) < 1:
        return True
    dims = {dim for type_ in graph.types.values() for dim in type_.shape if len(dim.terms) > 1}
    return any((value_of(dim, sizes) or 0) < 1 for dim in dims)


def widen(graph: Graph, value: Value, array: Array) -> Array:
    """Return integers as int64: in a narrow type `k - 1` and `k * k` would wrap.

    Raises:
        BadInput: an array of floats where the program has integers.
    """
    if graph.types[value].is_float:
        return array
    if array.dtype.kind not in "iub":
        raise BadInput(f"{value.name} should be integers, not {array.dtype}")
    return array if array.dtype == np.int64 else array.astype(np.int64)


def rebind(call: Call, caller: Graph, callee: Graph, numbers: Mapping[str, int]) -> dict[str, int]:
    """Return numbers for a callee's symbols: its own definitions win over the caller's.

    A size that no array of the caller has, as that of an input which a step leaves out, is a size
    of nothing in the callee either: it has no number.
    """
    bound = inside(call, caller, callee, {})
    open_ = {name for name, dim in bound.items() if any(s not in numbers for s in dim.symbols())}
    outer = {name: n for name, n in numbers.items() if name not in open_}
    own = {name: n for name, n in callee.sizes.defaults.items() if name not in numbers}
    inner = {name: dim.evaluate(numbers) for name, dim in bound.items() if name not in open_}
    return callee.sizes.bind(_free(callee, {**own, **outer, **inner}))


def _input_arrays(
    graph: Graph, arrays: Mapping[str, Array], states: Mapping[str, Array]
) -> Iterator[tuple[Value, Array]]:
    """Yield the arrays that a graph reads, each with as many axes as its type."""
    read = (*graph.inputs, *(param.value for param in graph.params))
    by_value = {value: arrays.get(str(value.name)) for value in read}
    by_value |= {state.past: states.get(state.name) for state in graph.states}
    for value, array in by_value.items():
        type_ = graph.types[value]
        if array is None:
            raise BadInput(f"{value.name} {type_} is missing")
        if array.ndim != len(type_.shape):
            raise BadInput(f"{value.name} {type_} cannot have shape {list(array.shape)}")
        yield value, array


def _divisor(dim: Dim, length: int, numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the number that a length and other sizes say: by H and H/N_H, N_H."""
    missing = [name for name in dim.symbols() if name not in numbers]
    if len(missing) != 1 or not length:
        return {}
    whole = dim * symbol(missing[0])
    if missing[0] in whole.symbols() or whole.evaluate(numbers) % length:
        return {}
    return {missing[0]: whole.evaluate(numbers) // length}


def _solve_symbols(
    graph: Graph, shapes: Mapping[Shape, tuple[int, ...]], numbers: Mapping[str, int]
) -> dict[str, int]:
    """Return the numbers that formulas say, each shape with lengths: by 2*T, how large T is."""
    found, lengths = dict(numbers), tuple(shapes.values())
    for name, size in implied_sizes(tuple(shapes), graph.sizes, numbers.keys()).items():
        number = size.of(lengths[size.index][size.axis], found)
        if number is not None:  # else the array has no shape that it can have
            found[name] = number
    return found


def _check(graph: Graph, value: Value, array: Array, numbers: Mapping[str, int]) -> None:
    type_, shape = graph.types[value], list(array.shape)
    missing = [name for dim in type_.shape for name in dim.symbols() if name not in numbers]
    if missing:
        raise BadInput(f"{value.name} {type_} has shape {shape}: nothing numbers {missing[0]}")
    expected = [dim.evaluate(numbers) for dim in type_.shape]
    if expected != shape:
        raise BadInput(f"{value.name} {type_} should be {expected}, but is {shape}")


def _free(graph: Graph, numbers: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in numbers.items() if name not in graph.sizes.definitions}


Arrays = Mapping[str, Array]
DType = type[np.floating[Any]]
Edge = tuple[str, Value]  # the path of a call, and a value of its graph or of its backward pass
Key = TypeVar("Key")


@dataclass(slots=True)
class Record:
    """The record of one run of a graph: every value, and the records of its calls.

    After the backward pass `reverse` has every value again, and every cotangent. `seed` draws its
    dropout, and `dtype` is the type of every float.
    """

    graph: Graph
    path: str
    sizes: Mapping[str, int]
    seed: int | None = None
    dtype: DType = np.float64
    values: dict[Value, Array] = field(default_factory=dict[Value, Array])
    calls: dict[Value, list[Record]] = field(default_factory=dict["Value", "list[Record]"])
    reverse: dict[Value, Array] = field(default_factory=dict[Value, Array])

    def runs(self) -> Iterator[Record]:
        """Yield this run and the runs of all its calls, callers first."""
        first: list[Record] = [self]
        return level_by_level(first, lambda run: chain.from_iterable(run.calls.values()))

    def by_path(self) -> dict[str, Record]:
        """Every run by its path; of a call that is made again, the first."""
        return {run.path: run for run in reversed(list(self.runs()))}


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Runs one program on given parameters (by path). `seed` draws dropout; None turns it off.

    `states` are the states that a step takes from the step before, by path. `arithmetic` says what
    the arrays hold: floats, or residues. `overrides` are arrays that replace the computed ones on
    an edge, forward or backward. `mesh` connects the program of a rank with the other ranks.
    `stopped` notes or replays the values at which gradients end.
    """

    program: IRProgram
    params: Arrays
    seed: int | None = None
    states: Arrays = field(default_factory=dict[str, Array])
    arithmetic: NumberSystem = FLOATS
    overrides: Mapping[Edge, Array] = field(default_factory=dict[Edge, Array])
    mesh: Mesh | None = None
    stopped: Stopped | None = None

    def forward(self, inputs: Arrays) -> tuple[dict[str, Array], Record]:
        """Outputs by name, and the record that `backward` needs."""
        graph = self.program.main
        sizes = bind_sizes(self.program, {**self.params, **inputs}, self.states)
        is_empty = any(0 in array.shape for array in (*self.params.values(), *inputs.values()))
        is_part = self.states or self.program.mesh  # of a step or a rank: nothing is S - 1 long
        if is_empty or (not is_part and _has_short_axes(graph, sizes)):
            check_positions(self.program, sizes)
        arrays = [widen(graph, value, inputs[str(value.name)]) for value in graph.inputs]
        record = self._run(graph, "", sizes, arrays, self.seed, self._dtype(arrays))
        outputs = [record.values[value] for value in graph.outputs]
        return dict(zip(graph.output_names, outputs, strict=True)), record

    def next_states(self, record: Record) -> dict[str, Array]:
        """The states of every call for the next step, by path."""
        return {
            join(run.path, state.name): run.values[state.next]
            for run in record.runs()
            for state in run.graph.states
        }

    def backward(self, record: Record, d_outputs: Arrays) -> dict[str, Array]:
        """Gradients of parameters (by path) and float inputs; a missing cotangent is zero."""
        graph = self.program.main
        cotangents: dict[Value, Array] = {}
        for name, value in zip(graph.output_names, graph.outputs, strict=True):
            if name in d_outputs:  # one value may leave under two names
                _accumulate(cotangents, value, d_outputs[name], self.arithmetic)
        gradients: dict[str, Array] = {}
        inputs = self._reverse(record, cotangents, gradients)
        for value in graph.inputs:
            if graph.types[value].is_float and not value.frozen:
                zero = np.zeros_like(record.values[value])
                gradients[str(value.name)] = inputs.get(value, zero)
        missing = {*self.params} - {*gradients} - {*frozen_paths(self.program)}
        for path in sorted(missing):
            gradients[path] = np.zeros_like(self.params[path])
        return gradients

    # ---- forward --------------------------------------------------------------------------------

    def _run(
        self,
        graph: Graph,
        path: str,
        sizes: Mapping[str, int],
        inputs: list[Array],
        seed: int | None,
        dtype: DType,
    ) -> Record:
        values = dict(zip(graph.inputs, inputs, strict=True))
        record = Record(graph, path, sizes, seed, dtype, values)
        for value in graph.param_values():
            record.values[value] = self.params[join(path, str(value.name))]
        for state in graph.states:
            past = self.states[join(path, state.name)]
            record.values[state.past] = widen(graph, state.past, past)
        for step in graph.steps:
            if isinstance(step, Apply):
                self._apply(step, record, graph.types)
            else:
                self._call(step, record)
            self._override(record.path, step.outputs, record.values)
        return record

    def rerun(self, record: Record, changed: Mapping[Value, Array], last: Step) -> Record:
        """Run a graph again up to a step, with some values of a run replaced by others.

        Only the steps that depend on these are computed.
        """
        values = {**record.values, **changed}
        again = replace(record, values=values, calls={}, reverse={})
        differs = set(changed)
        for step in record.graph.steps:
            if not differs.isdisjoint(step.inputs):
                if isinstance(step, Apply):
                    self._apply(step, again, record.graph.types)
                else:
                    self._call(step, again)
                values.update(changed)
                differs.update(step.outputs)
            if step is last:
                break
        return again

    def _dtype(self, inputs: Iterable[Array]) -> DType:
        """The type of the first parameter, else of the first float input."""
        floats = (array for array in inputs if array.dtype.kind == "f")
        return next(chain(self.params.values(), floats), np.zeros(())).dtype.type

    def _override(self, path: str, made: Iterable[Value], values: dict[Value, Array]) -> None:
        """Put the arrays that override these values in their place."""
        if self.overrides:
            for value in made:
                if (path, value) in self.overrides:
                    values[value] = self.overrides[path, value]

    def _context(self, record: Record, place: str) -> Context:
        drawn = drawing_key(record.seed, join(record.path, place))
        return Context(record.sizes, record.dtype, drawn, self.arithmetic, self.mesh, self.stopped)

    def _apply(
        self,
        node: Apply,
        record: Record,
        types: Mapping[Value, TensorType],
        values: dict[Value, Array] | None = None,
    ) -> None:
        environment = record.values if values is None else values
        body = node.body(types)
        arrays = [environment[value] for value in node.inputs]
        names = (str(expr.name) for expr in body.operands)
        operands = dict(zip(names, arrays, strict=True))
        context = self._context(record, node.place)
        compute = self.arithmetic.compute or evaluate
        if self.stopped is not None:
            self.stopped.step = node
        results = compute(body.outputs, operands, context, body.order())
        if self.stopped is not None and node.op.kinks and len(results) == 1:
            results = [flat_at(node.op.kinks, self.stopped, arrays[0], results[0])]
        environment.update(zip(node.outputs, results, strict=True))

    def _call(self, call: Call, record: Record) -> None:
        callee = self.program.graphs[call.callee]
        sizes = rebind(call, record.graph, callee, record.sizes)
        inputs = [record.values[value] for value in call.inputs]
        if call.loop:
            self._loop(call, call.loop, callee, record, sizes)
            return
        records: list[Record] = []
        for path in _paths(call, record):
            records.append(self._run(callee, path, sizes, inputs, record.seed, record.dtype))
            outputs = [records[-1].values[value] for value in callee.outputs]
            inputs = [outputs[0], *inputs[1:]] if call.count is not None else inputs
        outputs = [records[-1].values[value] for value in callee.outputs] if records else inputs[:1]
        record.calls[call.saved] = records
        record.values.update(zip(call.outputs, outputs, strict=True))

    def _loop(
        self, call: Call, loop: Loop, callee: Graph, record: Record, sizes: Mapping[str, int]
    ) -> None:
        """A round for every position; each draws dropout from a seed of its own.

        Without one the states end as they began.
        """
        inputs = [record.values[value] for value in call.inputs]
        path = join(record.path, call.path)
        rounds: dict[int, list[Array]] = {}
        records: list[Record] = []
        for position in _positions(loop, record.sizes):
            arrays = [_at(x, axis, position) for x, axis in zip(inputs, loop.inputs, strict=True)]
            seed = None if record.seed is None else key(record.seed, f"round {position}")
            records.append(self._run(callee, path, sizes, arrays, seed, record.dtype))
            rounds[position] = [records[-1].values[value] for value in callee.outputs]
            _go_round(inputs, rounds[position], loop.states)
        record.calls[call.saved] = records
        for number, (value, axis) in enumerate(zip(call.outputs, loop.outputs, strict=True)):
            if axis is None:
                record.values[value] = inputs[number - len(call.outputs)]
            else:
                parts = [rounds[position][number] for position in sorted(rounds)]
                type_ = record.graph.types[value]
                stacked = np.stack(parts, axis) if parts else self._zeros(type_, record)
                record.values[value] = stacked

    def _zeros(self, type_: TensorType, record: Record) -> Array:
        context = self._context(record, "")
        dtype = context.dtype if type_.is_float else np.int64
        return np.zeros(context.shape(type_.shape), dtype)

    # ---- backward -------------------------------------------------------------------------------

    def _reverse(
        self,
        record: Record,
        cotangents: Mapping[Value, Array],
        gradients: dict[str, Array],
        operands: Mapping[Value, Array] = MappingProxyType({}),
    ) -> dict[Value, Array]:
        """Cotangents of the inputs; parameter gradients are added to `gradients` by path.

        `operands` are inputs that the caller has made again.
        """
        backward = self.program.backwards[record.graph.key]
        values = record.reverse = {**record.values, **operands}
        for value, seed in backward.cotangents.items():
            values[seed] = cotangents.get(value, np.zeros_like(record.values[value]))
        self._override(record.path, backward.cotangents.values(), values)
        for step in backward.steps:
            if isinstance(step, Apply):
                self._apply(step, record, backward.types, values)
            elif step.again:
                self._call(step, record)
            else:
                self._reverse_call(step, record, values, gradients)
            self._override(record.path, step.outputs, values)
        for value, gradient in backward.param_gradients():
            path = join(record.path, str(value.name))
            _accumulate(gradients, path, values[gradient], self.arithmetic)
        return {
            value: values[backward.gradients[value]]
            for value in record.graph.inputs
            if value in backward.gradients
        }

    def _reverse_call(
        self,
        step: Call,
        record: Record,
        values: dict[Value, Array],
        gradients: dict[str, Array],
    ) -> None:
        """Run the rounds in reverse: what goes round is handed on, what all rounds read is summed.

        A plain call is one round.
        """
        backward, made = self.program.backwards[step.callee], record.calls[step.saved]
        taken, given = ports(step, backward)
        arriving = [values[value] for value in step.inputs]
        positions = _positions(step.loop, record.sizes) if step.loop else range(len(made))
        parts: dict[int, list[Array]] = {}
        for position, inner in reversed([*zip(positions, made, strict=True)]):
            seeds: dict[Value, Array] = {}
            for (seed, axis), array in zip(taken, arriving, strict=True):
                _accumulate(seeds, seed, _at(array, axis, position), self.arithmetic)
            cotangents = {value: seeds[seed] for value, seed in backward.cotangents.items()}
            operands = {value: seeds[value] for value in backward.operands}
            arrays = self._reverse(inner, cotangents, gradients, operands)
            rows = (inner.reverse[value] for value, _ in backward.rows)
            parts[position] = [*arrays.values(), *rows]
            for place, number in step.carried:
                arriving[place] = parts[position][number]
        around = {number: place for place, number in step.carried}
        types = self.program.backwards[record.graph.key].types
        for number, (result, (_, axis)) in enumerate(zip(step.outputs, given, strict=True)):
            every = [parts[position][number] for position in sorted(parts)]
            if number in around:
                values[result] = arriving[around[number]]
            elif not every:
                values[result] = self._zeros(types[result], record)
            elif axis is None:
                values[result] = reduce(self.arithmetic.add, every)
            else:
                values[result] = np.stack(every, axis)


def _positions(loop: Loop, sizes: Mapping[str, int]) -> list[int]:
    """The positions of a loop in the order of its rounds."""
    positions = list(range(loop.length.evaluate(sizes)))
    return positions[::-1] if loop.reverse else positions


def _at(array: Array, axis: int | None, position: int) -> Array:
    return array if axis is None else np.take(array, position, axis)


def _go_round(inputs: list[Array], outputs: list[Array], states: int) -> None:
    """Hand the states that a round left to the next one."""
    if states:
        inputs[-states:] = outputs[-states:]


def _accumulate(totals: dict[Key, Array], key: Key, part: Array, arithmetic: NumberSystem) -> None:
    array = totals.get(key)
    totals[key] = part if array is None else arithmetic.add(array, part)


# ---- parameters ----------------------------------------------------------------------------------


def _paths(call: Call, record: Record) -> list[str]:
    if call.count is None:
        return [join(record.path, call.path)]
    count = call.count.evaluate(record.sizes)
    rounds = range(call.first, call.first + count)
    return [join(record.path, f"{call.path}.{number}") for number in rounds]


def initial(program: IRProgram, seed: int = 0) -> dict[str, Array]:
    """Random parameters for tests: nothing zero, nothing one, unlike the file's initial values."""
    return {path: draw.array(seed) for path, draw in parameter_draws(program).items()}
