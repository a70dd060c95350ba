"""A block as a file that runs without xg: traced by torch, written, read again and compared."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from inspect import signature
from math import ceil, log10
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from xg.cli.input_arrays import expected
from xg.cli.lacking_sizes import refuse_open_parameters
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.wording import counted
from xg.driver import Program, compile_project
from xg.frontend.typed import Settings
from xg.verify.domains import fitting_inputs
from xg.verify.proof_sizes import sizes_of_proof
from xg.verify.reference.interpret import Interpreter
from xg.verify.reference.random import input_draws
from xg_runtime.errors import InputError
from xg_runtime.expect import fit
from xg_runtime.module import Array, Arrays
from xg_torch.export.formats import (
    quiet,
    read_onnx,
    read_program,
    tensors,
    write_onnx,
    write_program,
)

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram


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
        return cls(program, _traced(model, program, arguments, cases[0]), arguments, cases)

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
                        f"{out} would have another {name} than the diagram, by {difference:.1e} of "
                        "its largest number: nothing was written; please report the diagram"
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


def _traced(
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
                    f"{name} has a free axis {axis}, and the file would have one length for it: "
                    f"steps along it are written out one by one. --set {axis}=… says how many"
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
