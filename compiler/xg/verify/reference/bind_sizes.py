"""Arrays as a program reads them: integers widened, and numbers for its symbols by their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from xg.ir.dim import Dim, symbol
from xg.ir.graph import Call, Graph, Program, Value
from xg.ir.instances import inside
from xg.ir.known_sizes import implied_sizes
from xg.ir.size_constraints import axes_with_positions
from xg.ir.size_sources import SizeSources
from xg.ir.tensor import Shape
from xg_runtime.module import Array


class BadInput(ValueError):
    """Arrays that do not fit the program, in the file's symbols."""


def bind_sizes(
    program: Program, arrays: Mapping[str, Array], states: Mapping[str, Array] | None = None
) -> dict[str, int]:
    """Return a number for every symbol: from the arrays' shapes, else by default.

    Raises:
        BadInput: an array is missing, or its shape is none that it can have beside the others'.
    """
    graph = program.main
    numbers = dict(graph.sizes.bind(program.numbers))
    given = dict(_given(graph, arrays, states or {}))
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
    numbers |= _implied(graph, shapes, numbers)
    for value, array in given.items():
        _check(graph, value, array, numbers)
    return numbers


def check_positions(program: Program, numbers: Mapping[str, int]) -> None:
    """Raise BadInput for an empty axis that an operator needs a position of."""
    for limit in axes_with_positions(program):
        if all(name in numbers for name in limit.larger.symbols()):
            length = limit.larger.evaluate(numbers)
            if length < 1:
                raise BadInput(f"{limit.larger} = {length}: {limit.why}")


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


def _given(
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


def _implied(
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
