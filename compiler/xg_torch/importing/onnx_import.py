"""An ONNX model as a diagram: traced as a module of torch, and compared with ONNX's reference.

ONNX nodes become calls of torch and are traced, because the rules for layouts, masks and
activations read those calls, and because ONNX's shape inference gives up on sizes that are
computed. The second comparison, with ONNX's own reference, finds a wrong rule that is on both sides
of the first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import NotSpoken, first_line
from xg_torch.importing.exported import Exported, ModuleScope, with_names
from xg_torch.importing.model import Imported, exported_program, import_read, read_program
from xg_torch.importing.names import identifier
from xg_torch.importing.onnx_file import (
    OnnxModel,
    OnnxRefused,
    read_onnx,
    refusal,
)
from xg_torch.importing.proof import NotReplayed

if TYPE_CHECKING:
    from xg_torch.importing.onnx_module import OnnxModule

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false


SHORTEST: Final = 4  # of free axes in the example; 0 and 1 are special to torch
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def import_onnx(path: Path, name: str | None = None) -> Imported:
    """The model of a file; raises DiagnosticError with all that is in the way, and OSError."""
    return import_model(read_onnx(path), path.as_posix(), name)


def import_model(model: OnnxModel, file: str, name: str | None = None) -> Imported:
    """A model that was read; raises DiagnosticError with all that is in the way."""
    from xg_torch.importing.onnx_module import OnnxModule, refused_nodes  # needs torch

    if not model.nodes:
        raise refusal(file, "it computes nothing")
    run, example = _reference(model), _example(model)
    try:
        values = run(example)
    except NotReplayed as reason:
        raise refusal(file, str(reason)) from None
    refused = refused_nodes(model, {**values, **example})
    if refused:
        raise DiagnosticError.of(*dict.fromkeys(map(_diagnostic, refused)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = _trace(OnnxModule(model).eval(), example, file)

    def witness(arrays: Mapping[str, Array]) -> Sequence[Array]:
        """The outputs as the reference has them."""
        users = [each.name for each in exported.entries if each.kind == "user"]
        pairs = zip(model.inputs, users, strict=True)
        found = run({each.name: arrays[user].astype(each.dtype) for each, user in pairs})
        return [np.asarray(found[each]) for each in model.outputs]

    return import_read(exported, file, name, origin="an ONNX model", witness=witness)


def _reference(model: OnnxModel) -> Run:
    """The model as the `onnx` package computes it: all values by name; raises NotReplayed."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model.proto)

    def run(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        try:
            with np.errstate(all="ignore"):
                found = evaluator.run(None, dict(feeds), intermediate=True)
        except Exception as error:  # of all kinds: each operator has its own
            said = first_line(error)
            raise NotReplayed(f"the reference of the onnx package cannot run it: {said}") from error
        assert isinstance(found, dict)
        return found

    return run


def _example(model: OnnxModel) -> dict[str, Array]:
    """Draw inputs whose free axes have lengths that appear nowhere else in the model."""
    taken = {n for array in model.arrays.values() for n in array.shape}
    taken |= {n for each in model.inputs for n in each.axes if isinstance(n, int)}
    lengths: dict[object, int] = {}

    def length(axis: int | str | None, alone: object) -> int:
        if isinstance(axis, int):
            return axis
        key = alone if axis is None else axis
        if key not in lengths:
            used = {*taken, *lengths.values()}
            lengths[key] = next(n for n in range(SHORTEST, len(used) + 99) if n not in used)
        return lengths[key]

    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for each in model.inputs:
        shape = [length(axis, (each.name, place)) for place, axis in enumerate(each.axes)]
        drawn = rng.standard_normal(shape) if each.dtype.kind == "f" else np.ones(shape)
        arrays[each.name] = drawn.astype(each.dtype)
    return arrays


def _trace(module: OnnxModule, example: Mapping[str, Array], file: str) -> Exported:
    """The program of the module, in the names and the modules that the file has."""
    import torch  # heavy

    model = module.model
    free = tuple(
        {i: torch.export.Dim.AUTO for i, n in enumerate(each.axes) if not isinstance(n, int)}
        for each in model.inputs
    )
    inputs = tuple(torch.from_numpy(example[each.name]) for each in model.inputs)
    try:
        program = exported_program(module, inputs, {}, [(free,), None], file)
    except OnnxRefused as node:
        raise DiagnosticError.of(_diagnostic(node)) from None
    exported = read_program(program)
    users = [entry.name for entry in exported.entries if entry.kind == "user"]
    taken = exported.metas.keys() - set(users)
    names: dict[str, str] = {}
    for user, each in zip(users, model.inputs, strict=True):
        name = identifier(each.name)
        while name in {*taken, *names.values()}:
            name += "_"
        names[user] = name
    weights = {f"weights.{number}": name for number, name in enumerate(module.names)}

    def stack(scopes: tuple[ModuleScope, ...]) -> tuple[ModuleScope, ...]:
        steps = [scope.path for scope in scopes if scope.path.startswith("steps.")]
        top = model.nodes[0].stack[:1]
        return model.nodes[int(steps[-1].partition(".")[2])].stack if steps else top

    return with_names(exported, names, weights, stack)


def _diagnostic(refused: OnnxRefused) -> NotSpoken:
    return NotSpoken(refused.node.operator, refused.node.place, refused.reason)
