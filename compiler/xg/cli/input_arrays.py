"""Arrays from files, brought together with a program: sizes read from them, everything checked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence

from xg.cli.arguments import settings_of
from xg.cli.opening import open_project
from xg.cli.published import Published, at_sizes_of, size_numbers
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import Program, TensorSpec
from xg.frontend.project import Project
from xg.frontend.typed import declared_dims, shape_project
from xg.ir.parameters import ignored
from xg_runtime import arrays
from xg_runtime.expect import Expected, fit
from xg_runtime.module import Arrays


@dataclass(frozen=True)
class InputArrays:
    """A program at the sizes of its arrays, and the arrays in its order and type."""

    program: Program
    inputs: Arrays
    params: Arrays | None  # None: to be drawn
    cotangents: Arrays | None  # None: no gradients are wanted
    dtype: str  # of its floats: float32 where NumPy lacks the one that is asked for
    notes: Sequence[str] = ()  # sizes that are not those of the file

    @classmethod
    def read(cls, options: Namespace) -> InputArrays:
        """Read the arrays of the files; raises DiagnosticError, InputError, FileError."""
        project = open_project(options.file)
        inputs = arrays.read(options.inputs)
        params, notes = None, list[str]()
        if options.params:
            held = Published.read(project, options, options.params, inputs)
            program, params = held.program, held.params
        else:
            settings = settings_of(options)
            sources = dict.fromkeys(inputs, str(options.inputs))
            block, plan = options.block, options.plan
            program = at_sizes_of(inputs, project, block, settings, plan, sources=sources)
            notes = sorted(_resized(project, options, program))
        of, whole = _dtype(options), program.on_one_device
        return cls(
            program,
            fit(inputs, expected_inputs(whole), dtype=of, source=str(options.inputs)),
            params and fit(params, expected(whole.params), dtype=of, source=str(options.params)),
            _cotangents(whole, options),
            of,
            notes,
        )


def _resized(project: Project, options: Namespace, program: Program) -> Iterator[str]:
    """Notes on dims that have another number in the inputs than in the file.

    Parameters that are drawn follow the inputs.
    """
    settings = settings_of(options)
    written = shape_project(project, options.block, settings).main.sizes.defaults
    numbers = size_numbers(program.on_one_device)
    for name in written.keys() & declared_dims(project).keys() - settings.keys():
        if numbers[name] != written[name]:
            taken = f"{name} = {numbers[name]}, as {options.inputs} has it"
            yield f"note: {taken}; the file says {written[name]}"


def _cotangents(program: Program, options: Namespace) -> Arrays | None:
    """The cotangents of the float outputs in the file of --d-outputs; a missing one is zero."""
    if options.d_outputs is None:
        return None
    d_outputs = arrays.read(options.d_outputs)
    floats = {name: spec for name, spec in program.outputs.items() if spec.dtype == "float"}
    expectations = {name: want for name, want in expected(floats).items() if name in d_outputs}
    return fit(d_outputs, expectations, dtype=_dtype(options), source=str(options.d_outputs))


def _dtype(options: Namespace) -> str:
    return "float32" if options.dtype == "bfloat16" else options.dtype


def expected(specs: Mapping[str, TensorSpec]) -> dict[str, Expected]:
    """The inputs of a program, as the runtime describes them."""
    return {
        name: Expected(spec.shape, below=spec.range if isinstance(spec.range, int) else None)
        for name, spec in specs.items()
    }


def expected_inputs(program: Program) -> dict[str, Expected]:
    """The inputs of a program by arrows, with the ids that its losses ignore."""
    main = program.graphs.main
    expectations = expected(program.inputs)
    for value in main.inputs:
        name = str(value.name)
        expectations[name] = Expected(
            expectations[name].axes, expectations[name].below, ignored(program.graphs, value)
        )
    return expectations
