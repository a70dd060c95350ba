"""A call of code that others wrote: sizes, inputs, which result is which, and what is sent back."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from xg.cli.input_arrays import expected_inputs
from xg.cli.published import Published, at_sizes_of, size_numbers
from xg.diagnostics.diagnostic import DiagnosticError
from xg.driver import Program
from xg.frontend.project import Project
from xg.frontend.typed import dims_of
from xg.verify.proof_sizes import verification_sizes
from xg_runtime import random_inputs
from xg_runtime.errors import InputError
from xg_runtime.expect import fit
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_torch.compare.agreeing import in_shape

if TYPE_CHECKING:
    from argparse import Namespace

    from torch import nn


def config_of(module: nn.Module) -> dict[str, Any] | None:
    """The sizes and words that a module keeps as its `config`, as config.json would have them."""
    config: Any = getattr(module, "config", None)
    if isinstance(config, Mapping):
        return dict(config)
    to_dict = getattr(config, "to_dict", None)
    told: Any = to_dict() if to_dict is not None else getattr(config, "__dict__", None)
    return dict(told) if told else None


def at_all_sizes(
    project: Project, options: Namespace, held: Published, given: Arrays, every: int = 2
) -> Program:
    """The program with a number for every size: of arrays, of the user, and else one that is free.

    Multiples of `every` where the file allows them, as ranks cut them; else those that a proof
    takes.
    """
    graphs = held.program.on_one_device.graphs
    arrays = {**given, **held.params}
    proof = verification_sizes(graphs, graphs.all_numbers)
    open_ = [name for name in proof if name not in size_numbers(held.program)]
    taken = set(size_numbers(held.program).values())
    wished = (n for n in range(4 if every == 2 else every, 100, every) if n not in taken)
    for sizes in (dict(zip(open_, wished, strict=False)), proof):
        own = {name: n for name, n in sizes.items() if name in dims_of(project, options.block)}
        try:
            return at_sizes_of(
                arrays, project, options.block, {**own, **held.settings}
            ).on_one_device
        except DiagnosticError:
            if sizes is proof:
                raise
    raise AssertionError("the last sizes compile or raise")


def all_inputs(program: Program, given: Arrays, seed: int) -> Arrays:
    """The inputs of the diagram: those given, and drawn ones in place of the others."""
    expectations = expected_inputs(program)
    missing = {name: want for name, want in expectations.items() if name not in given}
    drawn = random_inputs.random_inputs(missing, {}, seed)
    arrays = {**drawn, **{name: given[name] for name in given if name in expectations}}
    return fit(arrays, expectations, dtype="float64", source="the inputs")


def called_with(
    module: nn.Module, names: Names | None, inputs: Arrays
) -> tuple[dict[str, Any], int]:
    """The tensors that the module is called with, by name, and how many of them by place."""
    import torch

    tensors = {name: torch.from_numpy(array.copy()) for name, array in inputs.items()}
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.requires_grad_()
    kinds = signature(module.forward).parameters
    table = names.inputs if names else {}
    wanted = {name: ours for name, ours in table.items() if ours in tensors}
    wanted |= {name: name for name in kinds if name in tensors}
    if wanted:
        return {name: tensors[ours] for name, ours in wanted.items()}, 0
    placed = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in kinds.values() if p.kind in placed]
    required = [p for p in places if p.default is Parameter.empty]
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in kinds.values())
    count = len(tensors) if several else min(len(tensors), len(places))
    if len(required) > len(tensors):
        raise InputError(
            f"the module's forward needs {', '.join(p.name for p in required)}, and the diagram "
            f"has {', '.join(tensors)}: say which is which under [inputs] in the file of names"
        )
    return dict(list(tensors.items())[:count]), count


def output_shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """The shapes of the diagram's outputs."""
    sizes = size_numbers(program)
    return {
        name: tuple(n if isinstance(n, int) else sizes[n] for n in spec.shape)
        for name, spec in program.outputs.items()
    }


def results_of(program: Program, outputs: Sequence[tuple[str, Array]]) -> dict[str, int]:
    """The place of each of the diagram's outputs among the module's results, by name or shape."""
    shapes = output_shapes(program)
    found: dict[str, int] = {}
    for by_name in (True, False):
        for name, shape in shapes.items():
            for place, (its, array) in enumerate(outputs):
                is_free = name not in found and place not in found.values()
                if is_free and (its == name or not by_name) and in_shape(array, shape) is not None:
                    found[name] = place
    if not found:
        ours = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        theirs = ", ".join(str(list(array.shape)) for _, array in outputs) or "nothing"
        raise InputError(f"the module gives {theirs}, and the diagram {ours}")
    return found


def cotangents_of(program: Program, names: list[str], seed: int) -> Arrays:
    """1 for a loss, else random numbers for every result that both have."""
    outputs, shapes = program.outputs, output_shapes(program)
    floats = [name for name in names if outputs[name].dtype == "float"]
    losses = [name for name in floats if not shapes[name]]
    if losses:
        return {name: np.ones(()) for name in losses}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shapes[name]) for name in floats}
