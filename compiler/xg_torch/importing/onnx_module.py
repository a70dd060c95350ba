"""An ONNX model as a module of torch, so that it is traced and read as every other model is."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from xg_torch.importing.archive import Array
from xg_torch.importing.errors import Unspeakable, first_line
from xg_torch.importing.onnx_file import (
    MADE_UP,
    ROUNDED,
    OnnxModel,
    OnnxNode,
    OnnxRefused,
    unround,
)
from xg_torch.importing.onnx_rules import ONNX_RULES, OnnxCall, Value, as_tensor, plain

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
