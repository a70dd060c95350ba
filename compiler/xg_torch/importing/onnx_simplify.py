"""Weights of linear layers and numbers as they were before an exporter turned or rounded them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from xg_torch.importing.archive import Array
from xg_torch.importing.onnx_node import OnnxNode

# Names that exporters make up; all others are the model's own.
MADE_UP: Final = re.compile(r"(val_|onnx::|/|_|\d).*|.*_output_\d+|")
ROUNDED: Final = 6e-8  # how far, in its own measure, float32 moves a number


def simplified(nodes: Sequence[OnnxNode], arrays: dict[str, Array]) -> Iterator[OnnxNode]:
    """The nodes in order, with linear layers as torch has them.

    A weight that was turned when it was exported is turned back, and has its own name again.
    """
    biases = _biases(nodes)
    renamed: dict[str, str] = {}
    for node in nodes:
        if node.operator != "MatMul":
            yield node
            continue
        matrix = arrays.get(node.inputs[1])
        made_up = MADE_UP.fullmatch(node.inputs[1])
        if matrix is not None and matrix.ndim == 2 and (made_up or "." not in node.inputs[1]):
            own = _own_name(node, biases) if made_up else ""
            name = renamed.get(node.inputs[1]) or own or _tied(matrix, arrays)
            if name and np.array_equal(arrays.setdefault(name, matrix.T), matrix.T):
                renamed[node.inputs[1]] = name
                yield replace(node, operator="Linear", inputs=(node.inputs[0], name))
                continue
        yield node


def _tied(matrix: Array, arrays: Mapping[str, Array]) -> str:
    """The name of a weight that a matrix is when it is turned: a head that is tied to a table."""
    alike = (name for name, array in arrays.items() if array.shape == matrix.shape[::-1])
    own = (name for name in alike if "." in name and not MADE_UP.fullmatch(name))
    return next((name for name in own if np.array_equal(arrays[name], matrix.T)), "")


def _biases(nodes: Sequence[OnnxNode]) -> Mapping[str, str]:
    """By the name of a sum's operand the other one, which may be a bias."""
    pairs = [node.inputs for node in nodes if node.operator == "Add" and len(node.inputs) == 2]
    return dict(pairs) | {b: a for a, b in pairs}


def _own_name(node: OnnxNode, biases: Mapping[str, str]) -> str:
    """The name that the weight of a linear layer has in the model; empty where nothing says it."""
    bias = biases.get(node.outputs[0], "")
    before, _, last = bias.rpartition(".")
    if "bias" in last and not MADE_UP.fullmatch(bias):
        return (
            f"{before}.{last.replace('bias', 'weight')}"
            if before
            else last.replace("bias", "weight")
        )
    scope = node.stack[-1]
    return f"{scope.path}.weight" if scope.kind.endswith("Linear") and scope.path else ""


def unrounded(number: float, tolerance: float = ROUNDED) -> float:
    """The number that was rounded to this one: a short decimal, or a root of a simple fraction."""
    if not math.isfinite(number) or number == 0:
        return number
    short = float(np.format_float_scientific(np.float32(number)))
    if len(repr(short).replace(".", "").strip("0-")) <= 6:
        return short
    for whole in (1.0, 2 / math.pi):
        square = Fraction(number * number / whole).limit_denominator(512)
        root = math.copysign(math.sqrt(square * whole), number)
        if abs(root - number) <= tolerance * abs(number):
            return root
    return short
