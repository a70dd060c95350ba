"""Inputs, parameters and cotangents for a program without any, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program
from xg.ir.parameters import param_specs
from xg.verify.reference.random import key, normal, words
from xg_runtime.module import Array


@dataclass(frozen=True, slots=True)
class Draw:
    """An array to be drawn under a place: nearly normal floats, or integers `below` a number."""

    place: str
    shape: tuple[int, ...]
    deviation: float = 1.0
    offset: float = 0.0
    below: int | None = None

    def array(self, seed: int) -> Array:
        """The array that a seed gives."""
        if self.below is None:
            return normal(key(seed, self.place), self.shape, self.deviation) + self.offset
        count = int(np.prod(self.shape, dtype=np.int64))
        drawn = words(key(seed, self.place), count) >> np.uint64(33)
        return (drawn.astype(np.int64) % self.below).reshape(self.shape)


def parameter_draws(program: Program) -> dict[str, Draw]:
    """Parameters by path: nothing zero, nothing one, unlike the file's initial values."""
    draws: dict[str, Draw] = {}
    numbers = program.main.sizes.bind(program.numbers)
    for path, param, graph, symbols in param_specs(program):
        shape = tuple(
            graph.sizes.expand(dim).substitute(symbols).evaluate(numbers)
            for dim in param.type.shape
        )
        fan = max(shape[-2], 1) if len(shape) > 1 else 4
        draws[path] = Draw(path, shape, fan**-0.5, 1.0 if param.start == "ones" else 0.0)
    return draws


def input_draws(program: Program) -> dict[str, Draw]:
    """Floats, and integers within their ranges; all sizes have numbers."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    draws: dict[str, Draw] = {}
    for value in main.inputs:
        name, type_ = str(value.name), main.types[value]
        shape = tuple(dim.evaluate(numbers) for dim in type_.shape)
        below = None if type_.range is None else type_.range.evaluate(numbers)
        draws[name] = Draw(name, shape, below=below)
    return draws


def cotangent_draws(program: Program) -> dict[str, Draw]:
    """One for each float output: 1 of a single number, drawn for others."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    outputs = zip(main.output_names, main.outputs, strict=True)
    types = {name: main.types[value] for name, value in outputs if main.types[value].is_float}
    return {
        name: _cotangent(name, tuple(dim.evaluate(numbers) for dim in type_.shape))
        for name, type_ in types.items()
    }


def _cotangent(name: str, shape: tuple[int, ...]) -> Draw:
    return Draw(f"d{name}", shape) if shape else Draw(f"d{name}", shape, 0.0, 1.0)


def inputs(program: Program, seed: int) -> dict[str, Array]:
    """Drawn arrays of the inputs."""
    return {name: draw.array(seed) for name, draw in input_draws(program).items()}


def cotangents(
    outputs: Mapping[str, Array], seed: int, names: Iterable[str] | None = None
) -> dict[str, Array]:
    """Drawn arrays of the cotangents of all float outputs, or of those named."""
    differentiated = outputs if names is None else names
    return {
        name: _cotangent(name, outputs[name].shape).array(seed)
        for name in differentiated
        if np.issubdtype(outputs[name].dtype, np.floating)
    }
