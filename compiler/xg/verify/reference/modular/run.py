"""A program run forward and backward on random residues, by the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import IRProgram
from xg.ir.parameters import param_specs
from xg.ir.tensor import TensorType
from xg.verify.reference.evaluate import Mesh, NumberSystem
from xg.verify.reference.interpret import Arrays, BodyCache, Interpreter, Record
from xg.verify.reference.modular.meanings import modulo
from xg.verify.reference.modular.residues import PRIMES, Field, Undefined
from xg.verify.reference.random import key, words
from xg_runtime.module import Array

DRAWS: Final = 8  # of inputs, until one needs no number that does not exist


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The inputs of a run: parameters by path, inputs and cotangents by name, dropout's seed."""

    prime: int
    params: Arrays
    inputs: Arrays
    cotangents: Arrays
    seed: int

    def each(self, change: Callable[[Arrays], Arrays]) -> RunInputs:
        """The same with arrays changed by name, as into one rank's parts of them."""
        params, inputs = change(self.params), change(self.inputs)
        return replace(self, params=params, inputs=inputs, cotangents=change(self.cotangents))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a run: outputs by name, gradients by the path or name of their tensor."""

    outputs: Arrays
    gradients: Arrays

    def each(self, change: Callable[[Arrays], Arrays]) -> Outcome:
        """The same with arrays changed by name, as from one rank's parts to the wholes."""
        return Outcome(change(self.outputs), change(self.gradients))

    def first_difference(self, other: Outcome) -> str | None:
        """The first array that is not equal to that of another run, None if all are."""
        for name in [*self.outputs, *other.outputs]:
            if not _equal(self.outputs.get(name), other.outputs.get(name)):
                return name
        for name in [*self.gradients, *other.gradients]:
            if not _equal(self.gradients.get(name), other.gradients.get(name)):
                return f"d{name}"
        return None


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


def draw(program: IRProgram, prime: int, seed: int) -> RunInputs:
    """Random residues, and random integers in their ranges; every size needs its number."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    params = {
        path: TensorType(graph.sizes.expand_type(param.type).substitute(symbols).shape)
        for path, param, graph, symbols in param_specs(program)
    }
    inputs = {str(value.name): main.types[value] for value in main.inputs}
    outputs = zip(main.output_names, main.outputs, strict=True)
    seeds = {name: main.types[value] for name, value in outputs if main.types[value].is_float}

    def drawn(role: str, types: Mapping[str, TensorType]) -> Iterator[tuple[str, Array]]:
        for name, type_ in types.items():
            shape = tuple(dim.evaluate(numbers) for dim in type_.shape)
            bound = prime if type_.range is None else type_.range.evaluate(numbers)
            below = _below(key(seed, f"{role} {name}"), shape, bound)
            yield name, Field(prime).wrap(below) if type_.is_float else below

    return RunInputs(
        prime,
        dict(drawn("param", params)),
        dict(drawn("input", inputs)),
        dict(drawn("cotangent", seeds)),
        seed,
    )


def _below(stream: int, shape: tuple[int, ...], bound: int) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return (words(stream, count) % np.uint64(bound)).astype(np.int64).reshape(shape)


def run(
    program: IRProgram,
    given: RunInputs,
    mesh: Mesh | None = None,
    arithmetic: NumberSystem | None = None,
) -> Outcome:
    """Outputs and, if the program has a backward pass, gradients; Undefined where a number is.

    One rank's program runs on its `mesh`, on its own parts of the inputs. `arithmetic` may be
    another than that of the prime, as one with a planted error.
    """
    return run_recorded(program, given, mesh, arithmetic)[0]


def run_recorded(
    program: IRProgram,
    given: RunInputs,
    mesh: Mesh | None = None,
    arithmetic: NumberSystem | None = None,
) -> tuple[Outcome, Record]:
    """The same, with the record of all values."""
    runner = interpreter(program, given, mesh, arithmetic)
    outputs, record = runner.forward(given.inputs)
    gradients = runner.backward(record, given.cotangents) if program.backwards else {}
    return Outcome(outputs, gradients), record


def interpreter(
    program: IRProgram,
    given: RunInputs,
    mesh: Mesh | None = None,
    arithmetic: NumberSystem | None = None,
) -> Interpreter:
    """An interpreter on residues, for callers that need its records."""
    return Interpreter(
        program,
        given.params,
        given.seed,
        arithmetic=arithmetic or modulo(given.prime),
        traces=_traces(program),
        mesh=mesh,
    )


@lru_cache(maxsize=4)
def _traces(program: IRProgram) -> BodyCache:
    """Every prime and every draw runs the same bodies."""
    del program  # the key
    return BodyCache()


def run_drawn(
    program: IRProgram, prime: int = PRIMES[0], seed: int = 0, params: Arrays | None = None
) -> tuple[RunInputs, Outcome]:
    """A run on random residues that needs no number that does not exist, as the inverse of 0.

    `params` are drawn too, unless they are given. Raises Undefined if none is found: then the
    program itself asks for one.
    """
    for attempt in range(DRAWS):
        inputs = draw(program, prime, key(seed, f"draw {attempt}"))
        inputs = inputs if params is None else replace(inputs, params=params)
        try:
            return inputs, run(program, inputs)
        except Undefined:
            if attempt == DRAWS - 1:
                raise
    raise AssertionError
