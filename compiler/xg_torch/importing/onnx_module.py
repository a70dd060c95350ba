"""Import an ONNX model: as a module of torch, which is traced and read as every other model is."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from xg.diagnostics.diagnostic import DiagnosticError
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import NotSpoken, Unspeakable, first_line
from xg_torch.importing.exported import Exported, ModuleScope, with_names
from xg_torch.importing.model import Imported, exported_program, import_read, read_program
from xg_torch.importing.names import identifier
from xg_torch.importing.onnx_model import (
    MADE_UP,
    ROUNDED,
    OnnxModel,
    OnnxNode,
    OnnxRefused,
    refusal,
    unround,
)
from xg_torch.importing.onnx_rules import ONNX_RULES, OnnxCall, Value, as_tensor, plain
from xg_torch.importing.proof import NotReplayed

DTYPES: Final = ("float32", "float64", "int32", "int64", "bool")


def run_node(
    node: OnnxNode, args: list[Value | None], producers: list[OnnxNode | None]
) -> tuple[Value, ...]:
    """The results of one node; raises OnnxRefused."""
    call = OnnxCall(node, args, producers)
    if node.operator not in ONNX_RULES:
        raise OnnxRefused(node, "no operator of the language is read from it")
    try:
        result = ONNX_RULES[node.operator](call)
    except Unspeakable as error:
        raise OnnxRefused(node, error.reason) from error
    except (TypeError, ValueError, IndexError, RuntimeError, AssertionError) as error:
        raise OnnxRefused(node, f"torch cannot compute it: {first_line(error)}") from error
    unread = sorted(node.attributes.keys() - call.read)
    if unread:
        raise OnnxRefused(node, f"its {', '.join(unread)} cannot be said")
    return result if isinstance(result, tuple) else (result,)


class _NodeModule(nn.Module):
    """One node as a module, so that what is traced says which node it is from."""

    def __init__(self, node: OnnxNode, producers: list[OnnxNode | None]) -> None:
        super().__init__()
        self.node, self.producers = node, producers

    def forward(self, *args: Any) -> tuple[Any, ...]:  # noqa: ANN401 - tensors, and what is known
        return run_node(self.node, list(args), self.producers)


class OnnxModule(nn.Module):
    """A whole model; `weights` are its parameters by number, under their names in the file.

    Tables of numbers with a point are parameters; one number under a name that an exporter made up,
    integers, and tables that hide are constants.
    """

    def __init__(self, model: OnnxModel) -> None:
        super().__init__()
        self.model = model
        self.weights = nn.ParameterList()
        self.names: list[str] = []
        self.constants: dict[str, Array] = {}
        self.numbers: dict[str, int] = {}
        for name, array in model.arrays.items():
            if name not in model.fixed and is_weight(name, array):
                self.numbers[name] = len(self.names)
                self.names.append(name)
                self.weights.append(nn.Parameter(torch.from_numpy(np.array(array))))
            else:
                self.constants[name] = array
        self.readers = Counter(name for node in model.nodes for name in node.inputs)
        makers = {name: node for node in model.nodes for name in node.outputs}
        self.steps = nn.ModuleList(
            _NodeModule(node, [makers.get(name) for name in node.inputs]) for node in model.nodes
        )

    def forward(self, *inputs: Tensor) -> tuple[Any, ...]:
        """The outputs, in order."""
        values: dict[str, Any] = dict(self.constants)
        values |= {name: self.weights[number] for name, number in self.numbers.items()}
        values |= dict(zip((each.name for each in self.model.inputs), inputs, strict=True))
        factors: dict[str, tuple[str, float]] = {}
        for node, step in zip(self.model.nodes, self.steps, strict=True):
            args = [values[name] if name else None for name in node.inputs]
            if node.operator in ("Mul", "Div") and self.readers[node.outputs[0]] == 1:
                _note_factor(node, args, factors)
            scaled = [factors[name] for name in node.inputs if name in factors]
            if node.operator == "MatMul" and scaled:
                args = [values[factors.get(name, (name,))[0]] for name in node.inputs]
                factor = unround(math.prod(by for _, by in scaled), ROUNDED * 2 * len(scaled))
                args.append(np.asarray(factor))
            values.update(zip(node.outputs, step(*args), strict=False))
        return tuple(as_tensor(values[name]) for name in self.model.outputs)


def _note_factor(
    node: OnnxNode, args: list[Value | None], factors: dict[str, tuple[str, float]]
) -> None:
    """Note a tensor times a number: both operands of attention have a part of its scale."""
    tensor, by = args
    if isinstance(by, np.ndarray) and by.size == 1 and isinstance(tensor, Tensor):
        number = float(plain(by))
        factors[node.outputs[0]] = node.inputs[0], number if node.operator == "Mul" else 1 / number


def is_weight(name: str, array: Array) -> bool:
    """Whether a table of numbers is a parameter of the model."""
    if array.dtype.kind != "f" or not array.size:
        return False
    if array.size == 1 and MADE_UP.fullmatch(name):
        return False
    return bool(np.isfinite(array).all()) and float(np.abs(array).max()) < 1e30


def refused_nodes(model: OnnxModel, values: Mapping[str, Array]) -> list[OnnxRefused]:
    """Every node that cannot be said, tried on the numbers that the reference computed."""
    found: list[OnnxRefused] = []
    makers = {name: node for node in model.nodes for name in node.outputs}
    everything = {**model.arrays, **values}
    for node in model.nodes:
        try:
            args = [_read_operand(node, everything, name) for name in node.inputs]
            with torch.no_grad():
                run_node(node, args, [makers.get(name) for name in node.inputs])
        except OnnxRefused as refusal:
            found.append(refusal)
    return found


def _read_operand(node: OnnxNode, values: Mapping[str, Array], name: str) -> Value | None:
    """An operand: integers may be sizes, which are known, and numbers with a point may not."""
    value = values.get(name) if name else None
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.name not in DTYPES:
        raise OnnxRefused(node, f"it reads {array.dtype}, and {', '.join(DTYPES)} are read")
    known = array.dtype.kind in "iu" or (array.size == 1 and array.dtype.kind == "f")
    return array if known else torch.from_numpy(np.array(array))


# An ONNX model as a diagram: traced as a module of torch, and compared with ONNX's reference.
#
# ONNX nodes become calls of torch and are traced, because the rules for layouts, masks and
# activations read those calls, and because ONNX's shape inference gives up on sizes that are
# computed. The second comparison, with ONNX's own reference, finds a wrong rule that is on both
# sides of the first.


SHORTEST: Final = 4  # of free axes in the example; 0 and 1 are special to torch
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def import_model(model: OnnxModel, file: str, name: str | None = None) -> Imported:
    """A model that was read; raises DiagnosticError with all that is in the way."""
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
