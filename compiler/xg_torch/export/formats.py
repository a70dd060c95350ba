"""A program that torch has traced, as the bytes of a file and back: ONNX, and torch.export."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xg_runtime.errors import FileError, InputError
from xg_runtime.module import Array, Arrays

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Axes = Sequence[int | str]
Run = Callable[[Arrays], Mapping[str, Array]]

ENDINGS: Final = (".onnx", ".pt2")
PACKAGES: Final = ("onnx", "onnxscript")  # which torch needs to write ONNX
LARGEST: Final = 2**31 - 2**20  # bytes of a message of protobuf, with room for the nodes


def refuse_ending(out: Path) -> None:
    """Raise FileError for another kind of file, InputError where a package is missing."""
    if out.suffix not in ENDINGS:
        kinds = " or ".join(ENDINGS)
        raise FileError(f"{out}: a model is exported to a file that ends in {kinds}")
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if out.suffix == ".onnx" and missing:
        raise InputError(
            f"{out} needs {' and '.join(missing)}: pip install 'xg[onnx]'; a .pt2 needs torch alone"
        )


@contextmanager
def quiet() -> Generator[None]:
    """Do without torch's notes on its own work."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def tensors(arrays: Arrays) -> dict[str, Any]:
    """The same numbers for torch."""
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


# ---- torch.export --------------------------------------------------------------------------------


def write_program(traced: ExportedProgram) -> bytes:
    """The bytes of a .pt2."""
    import torch

    written = io.BytesIO()
    torch.export.save(traced, written)
    return written.getvalue()


def read_program(data: bytes) -> Run:
    """The function that `torch.export.load` makes of a .pt2."""
    import torch

    module = torch.export.load(io.BytesIO(data)).module()

    def run(inputs: Arrays) -> Mapping[str, Array]:
        with torch.no_grad():
            return {name: out.numpy() for name, out in module(**tensors(inputs)).items()}

    return run


# ---- ONNX ----------------------------------------------------------------------------------------


def write_onnx(
    traced: ExportedProgram, example: Arrays, shapes: Mapping[str, Axes], outputs: Sequence[str]
) -> bytes:
    """The bytes of an .onnx whose inputs, sizes, outputs and parameters have the author's names.

    Raises InputError for what torch cannot write, or what is too large for one file.
    """
    import torch

    size = sum(each.numel() * each.element_size() for each in traced.state_dict.values())
    if size > LARGEST:
        raise InputError(
            f"the parameters have {size:,} bytes, and an .onnx file at most {LARGEST:,}: "
            "export to a .pt2"
        )
    try:
        with quiet():
            written = torch.onnx.export(
                traced,
                kwargs=tensors(example),
                dynamo=True,
                verbose=False,
                input_names=[*shapes],
                output_names=[*outputs],
                optimize=False,  # it merges and folds parameters, and their names are lost
            )
    except torch.onnx.OnnxExporterError as error:
        unknown = sorted(set(re.findall(r"OpOverload\(op='aten\.(\w+)'", str(error))))
        reason = f"has no ONNX for {', '.join(unknown)}" if unknown else "cannot write it"
        raise InputError(
            f"the exporter of torch {torch.__version__} {reason}: export to a .pt2"
        ) from error
    assert written is not None
    proto = written.model_proto
    _keep_inputs(proto.graph, list(shapes))
    _name_sizes(proto.graph, shapes)
    _tell_apart(proto.graph, outputs)
    return proto.SerializeToString(deterministic=True)


def _keep_inputs(graph: Any, inputs: Sequence[str]) -> None:  # noqa: ANN401 - of protobuf
    """Give inputs their names again, which those that leave as they are lose to outputs."""
    for value, name in zip(graph.input, inputs, strict=True):
        if value.name != name:
            copied = graph.node.add()
            copied.name, copied.op_type = f"{name}_kept", "Identity"
            copied.input.append(name)
            copied.output.append(value.name)
            graph.node.insert(0, graph.node.pop())  # before the nodes that read it
            value.name = name


def _tell_apart(graph: Any, outputs: Sequence[str]) -> None:  # noqa: ANN401 - of protobuf
    """Copy a value that leaves under two names, for which torch writes one of them twice."""
    for value, name in zip(graph.output, outputs, strict=True):
        if value.name != name:
            copied = graph.node.add()
            copied.name, copied.op_type = f"{name}_copied", "Identity"
            copied.input.append(value.name)
            copied.output.append(name)
            value.name = name


def _name_sizes(graph: Any, shapes: Mapping[str, Axes]) -> None:  # noqa: ANN401 - of protobuf
    """Put the author's names in the place of torch's s0, s1, …"""
    authors: dict[str, str] = {}
    for value in graph.input:
        axes = zip(value.type.tensor_type.shape.dim, shapes[value.name], strict=True)
        authors |= {dim.dim_param: str(axis) for dim, axis in axes if dim.dim_param.isidentifier()}
    known = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in authors) or r"(?!)")
    for value in (*graph.input, *graph.output, *graph.value_info):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param:
                axis.dim_param = known.sub(lambda found: authors[found.group()], axis.dim_param)


def read_onnx(data: bytes) -> Run:
    """The model of an .onnx in onnxruntime if it is installed, else in ONNX's own reference."""
    import onnx

    proto = onnx.load_from_string(data)
    onnx.checker.check_model(proto)
    names = [each.name for each in proto.graph.output]
    if find_spec("onnxruntime") is None:
        from onnx.reference import ReferenceEvaluator

        session: Any = ReferenceEvaluator(proto)
    else:
        session = _session(data)

    def run(inputs: Arrays) -> Mapping[str, Array]:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return run


def _session(data: bytes) -> Any:  # noqa: ANN401 - of a package that need not be installed
    """The model in onnxruntime; raises InputError for a node that it has not."""
    import onnxruntime.capi.onnxruntime_pybind11_state  # if it is there

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; its notes are on its own kernels
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as error:
        node = re.search(r"for (\w+)\(", str(error))
        raise InputError(
            f"onnxruntime has no {node[1] if node else 'kernel'} for numbers that this file has: "
            "export to a .pt2"
        ) from error
