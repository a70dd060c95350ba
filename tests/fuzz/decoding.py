"""Steps of generation of random programs: pieces of a text give what the whole text gives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from backends import forms_of_code, writing
from numpy.typing import NDArray

from xg.codegen.backend import backends, load
from xg.diagnostics.diagnostic import DiagnosticError
from xg.ir.graph import IRProgram
from xg.ir.walk import state_shapes
from xg.passes.pipelines import run
from xg.passes.rewrites import eliminate_dead
from xg.verify.reference.interpret import BadInput, Interpreter
from xg_generate.decode_step import decode_step, prologue
from xg_kernels.pipelines import FUSED_STEP

Arrays = Mapping[str, NDArray[Any]]
CLOSE = 1e-10


def step_failures(
    program: IRProgram,
    sizes: Mapping[str, int],
    params: Arrays,
    inputs: Arrays,
    seed: int,
    *,
    derived: bool = False,
) -> Iterator[str]:
    """The differences of every step that can be derived, interpreted and in every form of code.

    Where all are to be `derived`, a refusal is a failure.
    """
    expected, _ = Interpreter(program, params).forward(inputs)
    for name in program.main.output_names:
        try:
            step, once = decode_step(program, name), prologue(program, name)
        except DiagnosticError as error:
            if derived:
                yield f"no step of {name}: {error}"
            continue  # refused, with a reason
        given = Interpreter(eliminate_dead(once), params).forward(inputs)[0] if once else {}
        try:
            yield from _differences(step, sizes, params, {**inputs, **given}, expected, seed)
        except (DiagnosticError, BadInput):
            if derived or not _unsized(step):
                raise


def _unsized(step: IRProgram) -> set[str]:
    """The sizes that a step mentions and no array carries alone: those with them were left out."""
    graph = step.main
    mentioned = {
        name for type_ in graph.types.values() for dim in type_.shape for name in dim.symbols()
    }
    read = (*graph.inputs, *(param.value for param in graph.params))
    alone = {str(dim.name) for value in read for dim in graph.types[value].shape}
    return mentioned - alone - set(graph.sizes.defaults) - set(graph.sizes.definitions)


def _differences(
    step: IRProgram,
    sizes: Mapping[str, int],
    params: Arrays,
    inputs: Arrays,
    expected: Arrays,
    seed: int,
) -> Iterator[str]:
    (name,) = step.main.output_names
    axis = str(step.main.output_types[0].shape[-2].name)
    ends = _ends(sizes[axis], Random(seed))
    pieces = [_cut(step, axis, inputs, *piece) for piece in zip([0, *ends], ends, strict=False)]
    fused = run(FUSED_STEP, step).result
    ways = {"interpreted": _interpreted(step, sizes, params, pieces)}
    for backend in writing("step"):
        for kernels in forms_of_code(backend):
            module = _module(fused if kernels else step, backend, kernels=kernels)
            way = f"generated for {backend}{' with kernels' if kernels else ''}"
            ways[way] = _generated(module, sizes, params, pieces)
    for way, outputs in ways.items():
        whole = np.concatenate([output[name] for output in outputs], axis=-2)
        if not np.allclose(whole, expected[name], CLOSE, CLOSE, equal_nan=True):
            yield f"{way}, {name} in pieces up to {ends} is {whole}, not {expected[name]}"


def _ends(length: int, random: Random) -> list[int]:
    """The ends of pieces, the first one of them short."""
    count = max(0, min(length - 1, random.choice((1, 1, 2))))
    inner = random.sample(range(1, length), count)
    return [*sorted(inner), length]


def _cut(step: IRProgram, axis: str, inputs: Arrays, start: int, stop: int) -> Arrays:
    given: dict[str, NDArray[Any]] = {}
    for value in step.main.inputs:
        array = inputs[str(value.name)]
        for place, dim in enumerate(step.main.types[value].shape):
            if dim.name == axis:
                array = np.take(array, range(start, stop), place)
        given[str(value.name)] = array
    return given


def _interpreted(
    step: IRProgram, sizes: Mapping[str, int], params: Arrays, pieces: Sequence[Arrays]
) -> Iterator[Arrays]:
    states: Arrays = {}
    for path, type_ in state_shapes(step):
        past = {name: 0 for dim in type_.shape for name in dim.symbols() if name not in sizes}
        shape = [dim.evaluate({**sizes, **past}) for dim in type_.shape]
        states = {**states, path: np.zeros(shape, float if type_.is_float else int)}
    for piece in pieces:
        interpreter = Interpreter(step, params, states=states)
        outputs, record = interpreter.forward(piece)
        states = interpreter.next_states(record)
        yield outputs


def _module(step: IRProgram, name: str, *, kernels: bool) -> Any:  # noqa: ANN401
    backend = backends()[name]
    return backend.step_on_arrays(load(backend.source(step, None, kernels=kernels), "step"))


def _generated(
    module: Any,  # noqa: ANN401
    sizes: Mapping[str, int],
    params: Arrays,
    pieces: Sequence[Arrays],
) -> Iterator[Arrays]:
    made_by = getattr(module, "module", module)
    wanted = inspect.signature(made_by.empty_cache).parameters
    cache = module.empty_cache(params, **{name: sizes[name] for name in wanted if name in sizes})
    for piece in pieces:
        outputs, cache = module.step(params, cache, piece)
        yield outputs
