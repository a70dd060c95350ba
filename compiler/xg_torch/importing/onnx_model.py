"""Read an ONNX file as plain data: its inputs, its nodes in order, its numbers, its outputs."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import NotLoaded, first_line
from xg_torch.importing.exported import ModuleScope

if TYPE_CHECKING:
    pass


# A node of an ONNX graph as data.


@dataclass(frozen=True)
class OnnxNode:
    """One node; `stack` are the modules around it, as far as the exporter noted them."""

    operator: str
    name: str
    inputs: tuple[str, ...]  # "" where one is left out
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    stack: tuple[ModuleScope, ...]

    @property
    def place(self) -> str:
        """Where messages say that it is."""
        scope = self.stack[-1].path if self.stack else ""
        return scope or self.name or "the model"


class OnnxRefused(Exception):
    """Carries a node that the language cannot say, and why."""

    def __init__(self, node: OnnxNode, reason: str) -> None:
        super().__init__(reason)
        self.node, self.reason = node, reason


# Weights of linear layers and numbers as they were before an exporter turned or rounded them.


# Names that exporters make up; all others are the model's own.
MADE_UP: Final = re.compile(r"(val_|onnx::|/|_|\d).*|.*_output_\d+|")
ROUNDED: Final = 6e-8  # how far, in its own measure, float32 moves a number


def restore_linear(nodes: Sequence[OnnxNode], arrays: dict[str, Array]) -> Iterator[OnnxNode]:
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
    """Return a linear weight's name in the model, or an empty string if nothing tells it."""
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


def unround(number: float, tolerance: float = ROUNDED) -> float:
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


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false


OLDEST: Final = 11  # the first operator set that is converted
CURRENT: Final = 13  # the operator set from which axes and softmax mean what they mean today
PACKAGES: Final = ("onnx", "torch")
# Names that exporters give to axes without one: two such axes are two sizes.
NO_NAMES: Final = frozenset({"", "?", "*", "-1", "none", "unk", "unknown", "dynamic"})


@dataclass(frozen=True)
class OnnxInput:
    """An input: its element type, and its axes; text is a size by name, None one without."""

    name: str
    dtype: Any
    axes: tuple[int | str | None, ...]


@dataclass(frozen=True)
class OnnxModel:
    """A whole graph, and `proto`, which the reference of the `onnx` package can run.

    `fixed` are tables that stand between the nodes, and are no parameters.
    """

    inputs: tuple[OnnxInput, ...]
    nodes: tuple[OnnxNode, ...]
    arrays: Mapping[str, Array]
    fixed: frozenset[str]
    outputs: tuple[str, ...]
    proto: Any


def read_onnx(path: Path) -> OnnxModel:
    """The model of a file, with numbers that lie beside it; raises DiagnosticError."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise refusal(path.as_posix(), f"{package} is not installed", "pip install 'xg[onnx]'")
    import onnx

    try:
        proto = onnx.load(path)
        onnx.checker.check_model(proto)
    except OSError:
        raise
    except Exception as error:  # the parser and the checker raise of all kinds
        reason = f"it is no ONNX model: {first_line(error)}"
        raise refusal(path.as_posix(), reason) from error
    return from_proto(proto, path.as_posix())


def from_proto(proto: Any, file: str) -> OnnxModel:  # noqa: ANN401 - a ModelProto
    """The model in a protobuf of ONNX; raises DiagnosticError with all that has no place."""
    from onnx import inliner

    version = max((each.version for each in proto.opset_import if not each.domain), default=0)
    if version < OLDEST:
        raise refusal(
            file,
            f"it is written in operator set {version}, and {OLDEST} or later is read",
            "export it with opset_version=18, or convert it with onnx.version_converter",
        )
    source = proto
    if version < CURRENT:
        proto = _convert(proto, file)
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    arrays = _arrays(proto.graph)
    inputs = [_input(each, file) for each in proto.graph.input if each.name not in arrays]
    nodes: list[OnnxNode] = []
    own = frozenset(arrays)
    for node in proto.graph.node:
        if node.op_type == "Constant":
            arrays[node.output[0]] = _constant(node)
        else:
            nodes.append(_node(node, _stack(node)))
    roots = (each.kind for node in nodes for each in node.stack if not each.path)
    top = ModuleScope("", "", next(roots, "Model"))
    nodes = [replace(each, stack=(top, *(s for s in each.stack if s.path))) for each in nodes]
    nodes = list(
        _infer_stacks(nodes, {each.name for each in proto.graph.node if each.metadata_props})
    )
    outputs = tuple(each.name for each in proto.graph.output)
    fixed = frozenset(arrays) - own
    nodes = list(restore_linear(nodes, arrays))
    read = {name for node in nodes for name in node.inputs} | set(outputs)
    used = {name: array for name, array in arrays.items() if name in read}
    return OnnxModel(tuple(inputs), tuple(nodes), used, fixed, outputs, source)


def _convert(proto: Any, file: str) -> Any:  # noqa: ANN401 - a ModelProto
    """The same model in an operator set that rules read; the reference runs its own one."""
    from onnx import version_converter

    try:
        return version_converter.convert_version(proto, CURRENT)
    except Exception as error:  # the converter raises of all kinds
        reason = f"its operator set cannot be converted: {first_line(error)}"
        raise refusal(file, reason, "export it with opset_version=18") from error


def refusal(name: str, reason: str, advice: str = "") -> DiagnosticError:
    """A file that gives no model."""
    return DiagnosticError.of(NotLoaded(name, reason, advice))


def _arrays(graph: Any) -> dict[str, Array]:  # noqa: ANN401 - a GraphProto
    from onnx import numpy_helper

    return {each.name: numpy_helper.to_array(each) for each in graph.initializer}


def _input(info: Any, file: str) -> OnnxInput:  # noqa: ANN401 - a ValueInfoProto
    from onnx import helper

    kind = info.type.tensor_type
    if not info.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise refusal(file, f"{info.name} is no tensor with a known number of axes")
    axes = tuple(map(_axis, kind.shape.dim))
    return OnnxInput(info.name, helper.tensor_dtype_to_np_dtype(kind.elem_type), axes)


def _axis(dim: Any) -> int | str | None:  # noqa: ANN401 - a Dimension
    """The length of an axis, its name, or None if the exporter knew neither."""
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value > 0 else None
    return None if dim.dim_param.lower() in NO_NAMES else dim.dim_param


def _node(node: Any, stack: tuple[ModuleScope, ...]) -> OnnxNode:  # noqa: ANN401 - a NodeProto
    from onnx import helper

    operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    attributes = {
        each.name: _attribute(helper.get_attribute_value(each)) for each in node.attribute
    }
    return OnnxNode(operator, node.name, tuple(node.input), tuple(node.output), attributes, stack)


def _attribute(value: Any) -> Any:  # noqa: ANN401 - of any kind
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return unround(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _constant(node: Any) -> Array:  # noqa: ANN401 - a NodeProto
    from onnx.helper import make_graph, make_model, make_tensor_value_info
    from onnx.reference import ReferenceEvaluator

    output = make_tensor_value_info(node.output[0], 0, None)
    graph = make_graph([node], "constant", [], [output])
    (array,) = cast("list[Array]", ReferenceEvaluator(make_model(graph)).run(None, {}))
    return array


def _stack(node: Any) -> tuple[ModuleScope, ...]:  # noqa: ANN401 - a NodeProto
    """The modules around a node: what torch's exporter notes, or its path-like name."""
    noted = {each.key: each.value for each in node.metadata_props}
    paths, kinds = (
        _parse_list(noted.get(f"pkg.torch.onnx.{key}", ""))
        for key in ("name_scopes", "class_hierarchy")
    )
    if paths and len(paths) == len(kinds):
        pairs = list(zip(paths, kinds, strict=True))[:-1]  # the last is the node itself
        known = [(path, kind) for path, kind in pairs if not kind.startswith("_empty")]
        return tuple(ModuleScope(path, path, kind) for path, kind in known if kind)
    scopes: list[ModuleScope] = []
    for word in node.name.split("/")[1:-1] if node.name.startswith("/") else ():
        path = f"{scopes[-1].path}.{word}" if scopes else word
        kind = "".join(part.title() for part in word.split(".") if not part.isdigit())
        scopes.append(ModuleScope(path, path, kind or "Block"))
    return tuple(scopes)


def _infer_stacks(nodes: Sequence[OnnxNode], noted: set[str]) -> Iterator[OnnxNode]:
    """The nodes, each that has no notes in the modules of both its neighbors that have some."""
    ends = [node.stack for node in nodes if node.name in noted]
    seen = 0
    for node in nodes:
        if node.name in noted:
            seen += 1
        elif 0 < seen < len(ends):
            pairs = zip(ends[seen - 1], ends[seen], strict=False)
            both = tuple(takewhile(lambda pair: pair[0] == pair[1], pairs))
            node = replace(node, stack=tuple(scope for scope, _ in both))
        yield node


def _parse_list(text: str) -> list[str]:
    """``['', 'layers.0']`` as the exporter writes it."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return []
    return [str(each) for each in found] if isinstance(found, list) else []
