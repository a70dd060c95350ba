"""A block run whole and piece by piece by the reference interpreter, on arrays of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import xg
from xg.driver import BACKENDS, Program, compile_project
from xg.frontend.project import parse_project
from xg.ir.walk import state_shapes
from xg.verify.reference.interpret import Interpreter, initial

LIBRARY = Path(__file__).parents[3] / "diagrams"
Array = NDArray[Any]

TRANSFORMER = {"V": 13, "D": 12, "N_L": 2, "N_H": 3, "D_ff": 10, "S_max": 7}
LLAMA = {"V": 13, "D": 10, "N_L": 2, "N_H": 6, "N_KV": 2, "D_h": 4, "D_ff": 14}
LENGTH, BATCH = 7, 2


@dataclass(frozen=True)
class Stepping:
    """A program, its step, parameters, and the inputs of a whole text of LENGTH positions.

    `given` is what the step takes besides, computed once.
    """

    whole: Program
    step: Program
    params: Mapping[str, Array]
    inputs: Mapping[str, Array]
    given: Mapping[str, Array]
    axis: str = "S"

    @property
    def name(self) -> str:
        """The output that the step gives."""
        return self.step.graphs.main.output_names[0]

    def expected(self) -> Array:
        """The output of the whole text."""
        outputs, _ = Interpreter(self.whole.graphs, self.params).forward(self.inputs)
        return outputs[self.name]

    def empty(self) -> dict[str, Array]:
        """The states before the first step."""
        main = self.step.graphs.main
        numbers = main.sizes.bind(self.step.graphs.numbers) | {"B": BATCH, "T": 0}
        return {
            path: np.zeros(
                [dim.evaluate(numbers) for dim in type_.shape], float if type_.is_float else int
            )
            for path, type_ in state_shapes(self.step.graphs)
        }

    def stepped(self, sizes: Sequence[int]) -> Array:
        """The output of the same text in pieces of these sizes, put together."""
        states, at, outputs = self.empty(), 0, list[Array]()
        for size in sizes:
            output, states = self.one(states, at, at + size)
            outputs.append(output)
            at += size
        return np.concatenate(outputs, axis=-2)

    def one(
        self, states: Mapping[str, Array], start: int, stop: int
    ) -> tuple[Array, dict[str, Array]]:
        """One step over the positions start … stop-1, and the states after it."""
        interpreter = Interpreter(self.step.graphs, self.params, states=states)
        outputs, record = interpreter.forward(self.cut(start, stop))
        return outputs[self.name], interpreter.next_states(record)

    def cut(self, start: int, stop: int) -> dict[str, Array]:
        main = self.step.graphs.main
        given: dict[str, Array] = {}
        for value in main.inputs:
            array = {**self.inputs, **self.given}[str(value.name)]
            for place, dim in enumerate(main.types[value].shape):
                if dim.name == self.axis:
                    array = np.take(array, range(start, stop), place)
            given[str(value.name)] = array
        return given


def stepping(whole: Program, axis: str = "S", output: str | None = None) -> Stepping:
    """A program with random parameters and inputs, nothing zero or one."""
    main, rng = whole.graphs.main, np.random.default_rng(7)
    numbers = main.sizes.bind(whole.graphs.numbers) | {"B": BATCH, axis: LENGTH}
    inputs: dict[str, Array] = {}
    for value in main.inputs:
        type_ = main.types[value]
        shape = [dim.evaluate(numbers) for dim in type_.shape]
        high = type_.range.evaluate(numbers) if type_.range else 0
        inputs[str(value.name)] = (
            rng.integers(0, high, shape) if high else rng.standard_normal(shape)
        )
    params, once = initial(whole.graphs, 3), whole.prologue(output)
    given = Interpreter(once.graphs, params).forward(inputs)[0] if once else dict[str, Array]()
    return Stepping(whole, whole.step(output), params, inputs, given, axis)


@cache
def transformer(**options: str) -> Program:
    """A variant of the library's language model."""
    return xg.compile(LIBRARY / "models" / "transformer.xg", sizes=TRANSFORMER, options=options)


@cache
def llama(**options: str) -> Program:
    """The library's Llama, with grouped queries; a window has three positions."""
    sizes = {**LLAMA, "S_w": 3} if options else LLAMA
    return xg.compile(LIBRARY / "models" / "llama.xg", sizes=sizes, options=options)


def written(text: str, block: str | None = None) -> Program:
    """A program from text."""
    return compile_project(parse_project(text.encode()), block)


def entered(program: Program, block: str) -> Program:
    """The same program with another of its blocks as the entry."""
    (key,) = (key for key, graph in program.graphs.graphs.items() if graph.block == block)
    return replace(program, graphs=replace(program.graphs, entry=key))


def generated(
    one: Stepping, sizes: Sequence[int], backend: str = "numpy", *, kernels: bool = False
) -> Array:
    """The output of pieces of these sizes as the generated step of a backend gives it."""
    module = one.step.load(backend, kernels=kernels)
    params = _of(backend, one.params)
    cache = module.empty_cache(params, B=BATCH)
    at, outputs = 0, list[Array]()
    for size in sizes:
        output, cache = module.step(params, cache, _of(backend, one.cut(at, at + size)))
        outputs.append(np.asarray(output[one.name]))
        at += size
    return np.concatenate(outputs, axis=-2)


def _of(backend: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
    if backend == BACKENDS[0]:
        return dict(arrays)
    from torch import as_tensor

    return {name: as_tensor(array) for name, array in arrays.items()}
