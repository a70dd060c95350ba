"""Write a block as a file that runs without xg: traced by torch, read again and compared.

The file is compared at two choices of the free sizes before it is written. One example hides a
length that was written into a reshape, and torch's exporter fixes axes without a word. Torch's
graph optimizer stays off, because it loses the names of equal and of tied parameters.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from argparse import Namespace
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from inspect import signature
from math import ceil, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from xg.cli.input_arrays import expected, refuse_open_parameters
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.terminal import counted
from xg.driver import Program, compile_project
from xg.frontend.typed import Settings
from xg.verify.domains import fitting_inputs
from xg.verify.proof_sizes import sizes_of_proof
from xg.verify.reference.interpret import Interpreter
from xg.verify.reference.random import input_draws
from xg_runtime.errors import FileError, InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.run import fit

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram


# A program that torch has traced, as the bytes of a file and back: ONNX, and torch.export.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


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
            f"{out} needs {' and '.join(missing)}: pip install 'xg[onnx]', or export to a "
            ".pt2, which only needs torch"
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
            f"onnxruntime has no {node[1] if node else 'kernel'} for the types in this file: "
            "export to a .pt2"
        ) from error


SMALLEST: Final = 1e-6  # difference that is worth a number: below are the roundings of float32
TOLERANCE: Final = 1e-4  # of float32, as a part of the largest number of an output


@dataclass(frozen=True)
class ExportCase:
    """Inputs that a block takes at some sizes, and its outputs as the interpreter computes them."""

    inputs: Arrays
    outputs: Arrays

    @classmethod
    def of(cls, program: Program, params: Arrays, seed: int) -> ExportCase:
        """Draw inputs in float32, and compute in float64; every size has a number."""
        drawn = {name: draw.array(seed) for name, draw in input_draws(program.graphs).items()}
        exact = _as_floats(params, np.float64)
        fitting, _ = fitting_inputs(program.graphs, exact, drawn, seed)
        inputs = _as_floats(fitting, np.float32)
        outputs, _ = Interpreter(program.graphs, exact).forward(_as_floats(inputs, np.float64))
        return cls(inputs, outputs)


@dataclass(frozen=True)
class Export:
    """A block that torch has traced, and the cases in which its file has to be as the diagram."""

    program: Program
    traced: ExportedProgram
    arguments: Mapping[str, str]  # the inputs as the traced function has them: λ is lambda_
    cases: tuple[ExportCase, ...]

    @classmethod
    def of(
        cls, program: Program, params: Arrays | None, settings: Settings, options: Namespace
    ) -> Export:
        """Trace a block; raises InputError where its file would hold less than the block."""
        refuse_open_parameters(program, "a file holds its numbers")
        model = program.load("torch", kernels=options.kernels).Model(seed=options.seed).eval()
        if params is not None:
            wanted = expected(program.params)
            params = fit(params, wanted, dtype="float32", source=str(options.params))
            model.load_state_dict(tensors(params))
        held = {name: array.detach().numpy() for name, array in model.state_dict().items()}
        cases = tuple(_cases(program, held, settings, options.seed))
        arguments = dict(zip(program.inputs, signature(model.forward).parameters, strict=False))
        return cls(program, _trace(model, program, arguments, cases[0]), arguments, cases)

    def written(self, out: Path) -> bytes:
        """The bytes of the file; raises InputError."""
        if out.suffix == ".pt2":
            return write_program(self.traced)
        example, shapes = self.cases[0], {n: t.shape for n, t in self.program.inputs.items()}
        inputs = self._arguments(example.inputs)
        return write_onnx(self.traced, inputs, shapes, [*self._onnx_names().values()])

    def _arguments(self, inputs: Arrays) -> Arrays:
        return {self.arguments[name]: array for name, array in inputs.items()}

    def _onnx_names(self) -> dict[str, str]:
        """The outputs under the names of an .onnx, in which no input has the name of one.

        A state of a cell by itself is both: it leaves as `h_next`.
        """
        taken = {*self.program.inputs, *self.program.outputs}
        names: dict[str, str] = {}
        for name in self.program.outputs:
            own = name
            while own in self.program.inputs or (own != name and own in taken):
                own += "_next"
            names[name] = own
            taken.add(own)
        return names

    def compared(self, out: Path, data: bytes) -> str:
        """Read the bytes as others do, and compare; raises InputError where an output differs."""
        is_onnx = out.suffix != ".pt2"
        run = read_onnx(data) if is_onnx else read_program(data)
        names = self._onnx_names() if is_onnx else {name: name for name in self.program.outputs}
        worst = 0.0
        for case in self.cases:
            found = run(case.inputs if is_onnx else self._arguments(case.inputs))
            for name, output in case.outputs.items():
                difference = _difference(found[names[name]], output)
                worst = max(worst, difference)
                if not difference <= TOLERANCE:
                    raise InputError(
                        f"{out} would compute another {name} than the diagram, by "
                        f"{difference:.1e} of its largest number, so nothing was written: "
                        "please report the diagram"
                    )
        bound = 10.0 ** ceil(log10(max(worst, SMALLEST)))
        return f"outputs within {bound:.0e} of the diagram's in {counted(len(self.cases), 'case')}"


def _cases(program: Program, params: Arrays, settings: Settings, seed: int) -> Iterator[ExportCase]:
    """Cases of other sizes and numbers: small primes, then their doubles where the file allows."""
    graphs = program.graphs
    small = sizes_of_proof(program, graphs.all_numbers)
    free = [name for name in small if name not in graphs.main.sizes.bind(graphs.numbers)]
    for factor in (1, 2):
        sizes = {name: factor * small[name] for name in free}
        chosen = {**settings, **graphs.numbers, **sizes}
        try:
            sized = compile_project(program.project, graphs.main.block, chosen)
        except DiagnosticError:
            if factor == 1:
                raise
        else:
            yield ExportCase.of(sized, params, seed + factor)


def _trace(
    model: nn.Module, program: Program, arguments: Mapping[str, str], case: ExportCase
) -> ExportedProgram:
    """The program of torch; raises InputError where a free axis would have a number in it."""
    import torch

    shapes = {name: spec.shape for name, spec in program.inputs.items()}
    free = {
        arguments[name]: {
            place: torch.export.Dim.AUTO
            for place, axis in enumerate(shape)
            if isinstance(axis, str)
        }
        for name, shape in shapes.items()
    }
    given = tensors({arguments[name]: array for name, array in case.inputs.items()})
    with quiet():
        traced = torch.export.export(model, (), kwargs=given, dynamic_shapes=free)
    nodes = {node.name: node for node in traced.graph.nodes}
    for name, user in zip(shapes, traced.graph_signature.user_inputs, strict=False):
        lengths = nodes[cast("str", user)].meta["val"].shape
        for place in free[arguments[name]]:
            if str(lengths[place]).isdigit():  # torch has settled on the length of the example
                axis = shapes[name][place]
                raise InputError(
                    f"{name} has an axis {axis} without a number, and steps along it are "
                    f"written out one by one: --set {axis}=… says how many"
                )
    return traced


def _as_floats(arrays: Arrays, dtype: type) -> Arrays:
    return {name: x.astype(dtype) if x.dtype.kind == "f" else x for name, x in arrays.items()}


def _difference(found: Array, output: Array) -> float:
    """The largest difference, as a part of the largest number; infinite for another shape."""
    if found.shape != output.shape:
        return float("inf")
    if not output.size:
        return 0.0
    largest = max(1.0, float(np.abs(output).max()))
    return float(np.abs(found.astype(np.float64) - output).max()) / largest
