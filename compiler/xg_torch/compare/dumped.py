"""Arrays that other code has written, beside a diagram on the same weights and inputs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

import numpy as np

from xg.cli.input_arrays import expected, expected_inputs
from xg.cli.published import Published, names_for, size_numbers
from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.project import Project
from xg.frontend.typed import shape_project
from xg.ir.parameters import param_specs
from xg_runtime import arrays as array_files
from xg_runtime import rename, weights
from xg_runtime.errors import InputError
from xg_runtime.expect import fit
from xg_runtime.module import Array, Arrays
from xg_torch.compare.agreeing import in_shape
from xg_torch.compare.comparison import CodeComparison, ModuleAgreement
from xg_torch.compare.flat_program import FlatProgram, flat_run
from xg_torch.compare.foreign_run import Event, ForeignRun, event_of
from xg_torch.compare.variants import OtherWeights

GRADIENT = "d/"


@dataclass(frozen=True)
class Dump:
    """Arrays of a file, and the diagram run on the weights and inputs among them."""

    found: Arrays
    held: Published
    inputs: Arrays
    flat: FlatProgram
    source: str

    @classmethod
    def of(cls, project: Project, options: Namespace, found: Arrays) -> Dump:
        """Run the diagram, forward and backward; raises InputError."""
        inputs = _inputs(project, options, found)
        held = _held(project, options, found, inputs)
        program = held.program.on_one_device
        source = str(options.against)
        params = fit(held.params, expected(program.params), dtype="float64", source=source)
        inputs = fit(inputs, expected_inputs(program), dtype="float64", source=source)
        losses = [name for name, spec in program.outputs.items() if spec.shape == ()]
        if not losses and any(name.startswith(GRADIENT) for name in found):
            losses = [name for name in program.outputs if GRADIENT + name in found]
        d_outputs = {name: _cotangent(found, name) for name in losses}
        return cls(found, held, inputs, flat_run(program.graphs, params, inputs, d_outputs), source)

    def run(self) -> ForeignRun:
        """Their run, as far as the file tells it."""
        return _run(self.found, self.flat, self.held, {*self.inputs})

    def beside(
        self, run: ForeignRun, results: Arrays, gradients: Arrays, tolerance: float
    ) -> CodeComparison:
        """Both runs beside each other; raises InputError where nothing can be compared."""
        if not run.events and not results and not gradients:
            raise InputError(f"{self.source} has no edge, no result and no gradient of the diagram")
        owners = _owners(self.held, self.found, self.flat)
        others = OtherWeights({})
        return CodeComparison(self.flat, run, owners, results, gradients, others, tolerance)


def compare_dumped(project: Project, options: Namespace) -> ModuleAgreement:
    """Run the diagram on the weights and inputs of a file, and compare; raises InputError."""
    found = array_files.read(options.against)
    if options.inputs:
        found = {**array_files.read(options.inputs), **found}
    return compare_found(project, options, found)


def compare_found(project: Project, options: Namespace, found: Arrays) -> ModuleAgreement:
    """Run the diagram on the weights and inputs among arrays, and compare; raises InputError."""
    dump = Dump.of(project, options, found)
    results = {
        name: array
        for name, edge in dump.flat.outputs.items()
        if name in found and (array := in_shape(found[name], edge.array.shape)) is not None
    }
    gradients = gradients_of(dump.held, found, dump.flat)
    return dump.beside(dump.run(), results, gradients, options.tolerance).judge()


def _inputs(project: Project, options: Namespace, found: Arrays) -> Arrays:
    """The inputs of the block among the arrays; raises InputError where one is missing."""
    main = shape_project(project, options.block, dict(options.settings)).main
    names = [str(value.name) for value in main.inputs]
    missing = [name for name in names if name not in found]
    if missing:
        raise InputError(f"{options.against} lacks the input {missing[0]} of {main.block}")
    return {name: found[name] for name in names}


def _held(project: Project, options: Namespace, found: Arrays, inputs: Arrays) -> Published:
    """The weights: of the checkpoint that is given, else those in the file itself."""
    if options.params is not None:
        return Published.read(project, options, options.params, inputs)
    try:
        checkpoint = weights.Weights(str(options.against), tensors_of(project, options, found))
        return Published.of(project, options, checkpoint, inputs)
    except InputError as error:
        more = "no weights are in it that fit: --params CHECKPOINT gives them"
        raise InputError(error.message, (*error.details, more)) from error


def tensors_of(project: Project, options: Namespace, found: Arrays) -> Arrays:
    """The arrays of a file that are weights, by the names of the code or of the diagram."""
    draft = shape_project(project, options.block, dict(options.settings))
    paths = {path for path, *_ in param_specs(draft)}
    names = names_for(options, project)
    patterns = [line.tensor for line in names.lines] if names else []
    prefix = names.prefix if names else ""
    return {
        name: array
        for name, array in found.items()
        if name in paths
        or any(rename.fits(p, name) or rename.fits(p, prefix + name) for p in patterns)
    }


def _cotangent(found: Arrays, name: str) -> Array:
    return np.asarray(found.get(GRADIENT + name, np.ones(())), np.float64)


def _run(found: Arrays, flat: FlatProgram, held: Published, inputs: set[str]) -> ForeignRun:
    """The tensors of the file as those of a run: edges by our names, results of modules."""
    named = {edge.full_name: edge for edge in flat.edges if edge.step is not None}
    tensors = list(_owners(held, found, flat))
    direct: dict[str, list[str]] = {}
    for name in tensors:
        direct.setdefault(name.rpartition(".")[0], []).append(name)
    run = ForeignRun(direct=direct, tied={name: name for name in tensors}, is_whole=False)
    for name, array in found.items():
        gradient = found.get(GRADIENT + name)
        event = event_of(name, array, gradient)
        if name in named:
            run.events.append(Event("", "output", array, gradient, edge=name))
        elif name not in inputs and event.module in direct:
            run.events.append(event)
    return run


Owned = dict[str, list[list[str]]]


def _owners(held: Published, found: Mapping[str, object], flat: FlatProgram) -> Owned:
    """The parameters that each tensor of the code holds."""
    params, sizes = list(flat.params), size_numbers(held.program)
    if held.names is None:
        return {path: [[path]] for path in params}
    lines = {line.tensor for line in rename.lines_for(held.names, params, "the diagram", sizes)}
    prefix = held.names.prefix
    spelled = {name.removeprefix(GRADIENT) for name in found}
    known = [*lines] + [n for n in spelled if prefix + n in lines]
    return rename.owners(held.names, known, params, flat.program.main.block, sizes)


def gradients_of(held: Published, found: Arrays, flat: FlatProgram) -> Arrays:
    """The gradients of parameters in the file, by our names or by theirs."""
    own = {p: found[GRADIENT + p] for p in flat.params if GRADIENT + p in found}
    if held.names is not None:
        sizes = size_numbers(held.program)
        params = list(flat.params)
        for line in rename.lines_for(held.names, params, "the diagram", sizes):
            bare = line.tensor.removeprefix(held.names.prefix)
            tensor = found.get(GRADIENT + line.tensor, found.get(GRADIENT + bare))
            if tensor is not None:
                shapes = [flat.params[p].array.shape for p in line.params]
                parts = line.layout.params(tensor, shapes, sizes)
                own.update(zip(line.params, parts, strict=True))
    wrong = [p for p, g in own.items() if g.shape != flat.params[p].array.shape]
    if wrong:
        shapes = [list(own[wrong[0]].shape), list(flat.params[wrong[0]].array.shape)]
        raise InputError(
            f"{GRADIENT}{wrong[0]} has the shape {shapes[0]}, and {wrong[0]} {shapes[1]}"
        )
    return own
