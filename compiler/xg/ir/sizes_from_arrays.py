"""Sizes read from arrays: the length of an axis is a number for its symbol."""

from __future__ import annotations

from collections.abc import Mapping

from xg.ir.graph import IRProgram
from xg.ir.known_sizes import implied_sizes
from xg.ir.parameters import param_specs


def sizes_from_arrays(program: IRProgram, found: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The numbers that the shapes of inputs, then of parameters, give to symbols.

    The first array that has a symbol's axis counts; whether the others agree is not judged here.
    """
    return {name: number for name, (number, _) in carried_sizes(program, found).items()}


def carried_sizes(
    program: IRProgram, found: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, str]]:
    """These numbers, each with the name of the array that gives it.

    A size without a number that is no axis may follow from a formula, as T from [2*T].
    """
    main = program.main
    shapes = [(str(value.name), main.types[value].shape) for value in main.inputs]
    shapes += [
        (path, graph.sizes.expand_type(param.type).substitute(symbols).shape)
        for path, param, graph, symbols in param_specs(program)
    ]
    given = [
        (name, shape, found[name])
        for name, shape in shapes
        if name in found and len(found[name]) == len(shape)
    ]
    sizes: dict[str, tuple[int, str]] = {}
    for name, shape, lengths in given:
        for dim, length in zip(shape, lengths, strict=True):
            if dim.name is not None:
                sizes.setdefault(dim.name, (length, name))
    numbers = {**program.main.sizes.defaults, **{name: n for name, (n, _) in sizes.items()}}
    axes = [shape for _, shape, _ in given]
    for symbol, size in implied_sizes(axes, main.sizes, numbers.keys()).items():
        name, _, lengths = given[size.index]
        number = size.of(lengths[size.axis], numbers)
        if number is not None:
            numbers[symbol] = number
            sizes[symbol] = (number, name)
    return sizes
