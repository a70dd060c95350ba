"""Compare arrays that other code has written, on one device or several ranks, with a diagram."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from xg.cli.arguments import settings_of
from xg.cli.input_arrays import Published, expected, expected_inputs, names_for, size_numbers
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.driver import Program, compile_project
from xg.frontend.project import Project
from xg.frontend.typed import shape_project
from xg.ir.walk import param_specs
from xg.sharding.errors import ManyStages
from xg.sharding.local import ShardSpec, cuts
from xg_runtime import arrays as array_files
from xg_runtime import rename, weights
from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names, TensorLayout
from xg_runtime.ranks.grid import Grid
from xg_runtime.run import fit
from xg_torch.compare.causes import MEANS, OtherWeights, variants
from xg_torch.compare.comparison import CodeComparison, FirstDifference, ModuleAgreement
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, flat_run, in_shape, off
from xg_torch.compare.foreign_run import Event, ForeignRun, RankArrays, WholeArray, event_of

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
        """Return the comparison of both runs; raises InputError if nothing can be compared."""
        if not run.events and not results and not gradients:
            raise InputError(
                f"{self.source} has no edge, result or gradient of the diagram: name its "
                "arrays as the diagram does, or map their names with --names"
            )
        owners = _owners(self.held, self.found, self.flat)
        others = OtherWeights({})
        return CodeComparison(self.flat, run, owners, results, gradients, others, tolerance)


def compare_array_file(project: Project, options: Namespace) -> ModuleAgreement:
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
        raise InputError(
            f"{options.against} must have every input of {main.block}; it lacks {missing[0]}"
        )
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
    """Return the file's tensors as a run: edges by our names, and results of modules."""
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
            f"{GRADIENT}{wrong[0]} must have the shape of {wrong[0]}, {shapes[1]}; found "
            f"{shapes[0]}"
        )
    return own


# Arrays that several ranks of other code have written, beside a diagram under a plan.
#
# The plan says how weights and inputs are cut; of everything else the ranks' shapes say it. Where
# ranks hold copies, each is compared, so the rank that drifts is named.


Found = TypeVar("Found")
COPIES: Final = "its copies differ from rank to rank: not broadcast, or updated apart"


def files_of_ranks(path: Path) -> list[Path] | None:
    """The files of all ranks by their numbers; None where the path is one file.

    A folder has one for each; in a name a star is the number. Raises InputError.
    """
    if not path.is_dir() and "*" not in path.name:
        return None
    folder, pattern = (path, "*") if path.is_dir() else (path.parent, path.name)
    known = [each for each in folder.glob(pattern) if each.suffix in array_files.ENDINGS]
    numbered = {each: re.findall(r"\d+", each.stem) for each in known}
    found = sorted((int(numbers[-1]), each) for each, numbers in numbered.items() if numbers)
    if not found or [number for number, _ in found] != list(range(len(found))):
        names = ", ".join(sorted(each.name for each in known)) or "no arrays"
        raise InputError(f"{path} must have a file for each rank, from rank0.npz on; found {names}")
    return [each for _, each in found]


@dataclass(frozen=True)
class RankDumps:
    """The arrays that all ranks have written, and the plan that they follow."""

    project: Project
    options: Namespace
    found: Sequence[Arrays]
    program: Program
    names: Names | None

    @classmethod
    def of(cls, project: Project, options: Namespace, found: Sequence[Arrays]) -> RankDumps:
        """Compile the plan for the arrays of all ranks; raises InputError, DiagnosticError."""
        program = compile_plan(project, options)
        ranks = Grid(dict(program.mesh)).count
        if ranks != len(found):
            mesh = " × ".join(f"{axis} = {size}" for axis, size in program.mesh.items())
            raise InputError(
                f"{options.against} has {len(found)} ranks, and {options.plan} has {ranks} "
                f"({mesh}): --set {next(iter(program.mesh), 'N_T')}=… changes an axis"
            )
        if program.graphs.lengths:
            padded = ", ".join(program.graphs.lengths)
            raise InputError(
                f"{options.plan} pads {padded}, which other code may not do: compare at a "
                f"size of {padded} that the ranks can share equally"
            )
        return cls(project, options, found, program, names_for(options, project))

    @property
    def mesh(self) -> Mapping[str, int]:
        """The ranks along every axis."""
        return self.program.mesh

    def array(self, name: str, rank: int = 0) -> RankArrays:
        """An array of all ranks, as one of them sees it."""
        return RankArrays([each[name] for each in self.found], self.mesh, rank)

    @property
    def everywhere(self) -> list[str]:
        """The arrays that all ranks have."""
        return [name for name in self.found[0] if all(name in each for each in self.found)]

    def cuts(self) -> dict[str, ShardSpec]:
        """Return how the plan cuts inputs and tensors, in the names and layouts of the code."""
        known = cuts(self.program.graphs)
        if self.names is None:
            return {name: known.get(name, ()) for name in self.everywhere}
        block, own = self.program.graphs.main.block, list(self.program.params)
        named = rename.lines_for(self.names, own, block, size_numbers(self.program))
        lines = {line.tensor: line for line in named}
        found: dict[str, ShardSpec] = {}
        for name in self.everywhere:
            spelled = name if name in lines or name in known else self.names.prefix + name
            line = lines.get(self.names.tied.get(spelled, spelled))
            found[name] = known.get(name, ())
            if line is not None:
                ours = {known[param] for param in line.params}
                found[name] = self._in_their_layout(name, line.layout, ours)
        return found

    def _in_their_layout(self, name: str, layout: TensorLayout, ours: set[ShardSpec]) -> ShardSpec:
        if ours == {()} or (not layout.maps and not layout.splits and not layout.stacked):
            return next(iter(ours))
        if layout.splits or layout.stacked or any(layout.maps):
            if self._has_equal_copies(name):
                return ()
            raise InputError(
                f"the plan divides {name}, but the file of names splits it into several "
                "parameters: save the arrays under the diagram's names instead"
            )
        turned = {-1: -2, -2: -1} if len(layout.maps) % 2 else {}
        return tuple((turned.get(axis, axis), over) for axis, over, *_ in next(iter(ours)))

    def _has_equal_copies(self, name: str) -> bool:
        first = self.found[0][name]
        return all(np.array_equal(first, each[name]) for each in self.found)

    def dump(self) -> Dump:
        """The weights and inputs of all ranks put together; raises InputError.

        A tensor that every rank has the same of is one that the code did not cut, or a part of
        zeros: the shapes of the others tell.
        """
        options = Namespace(**{**vars(self.options), "plan": None})
        dump, _ = self.read_whole(lambda arrays: Dump.of(self.project, options, arrays))
        return dump

    def read_whole(self, read: Callable[[Arrays], Found]) -> tuple[Found, Mapping[str, ShardSpec]]:
        """Read what the ranks hold together, by the cuts of the plan; return also the cuts.

        If that fails, what every rank has the same of is left uncut. Raises the first InputError.
        """
        cut = self.cuts()
        uncut = {n: () if each and self._has_equal_copies(n) else each for n, each in cut.items()}
        try:
            return read(self.whole(cut)), cut
        except InputError as first:
            try:
                return read(self.whole(uncut)), uncut
            except InputError:
                raise first from None

    def whole(self, known: Mapping[str, ShardSpec]) -> Arrays:
        """The arrays of all ranks put together as they are cut."""
        return {name: self.array(name).joined(known[name]).array for name in self.everywhere}

    def find_drift(self, tensors: Sequence[str]) -> tuple[str, int, float] | None:
        """Return a weight or input that differs from rank 0's copy, the rank, and by how much."""
        known = self.cuts()
        for name in tensors:
            if name in known:
                first = self.array(name).joined(known[name]).array
                for rank in range(1, len(self.found)):
                    own = self.array(name, rank).joined(known[name]).array
                    if off(own, first) > self.options.tolerance:
                        return name, rank, off(own, first)
        return None


def compile_plan(project: Project, options: Namespace) -> Program:
    """The program that the ranks follow; raises DiagnosticError for one in stages."""
    program = compile_project(project, options.block, settings_of(options), options.plan)
    if program.stages:
        raise DiagnosticError.of(ManyStages(len(program.stages)))
    return program


def compare_files(project: Project, options: Namespace, files: Sequence[Path]) -> ModuleAgreement:
    """Compare what ranks have written, a file each; raises InputError, DiagnosticError."""
    if options.plan is None:
        raise InputError(
            f"{options.against} has the arrays of {len(files)} ranks: name the plan that "
            "divides the weights with --plan"
        )
    return compare_ranks(project, options, [array_files.read(file) for file in files])


def compare_ranks(
    project: Project, options: Namespace, found_on: Sequence[Arrays]
) -> ModuleAgreement:
    """Run the diagram on what the ranks hold together, and compare each; raises InputError."""
    ranks = RankDumps.of(project, options, found_on)
    dump = ranks.dump()
    views = _Views(ranks, dump)
    drift = ranks.find_drift([*dump.inputs, *views.tensors])
    grid = Grid(dict(ranks.mesh))
    if drift is not None:
        name, rank, error = drift
        theirs = f"{name} of rank {rank}"
        first = FirstDifference("forward", name, name, theirs, error, COPIES, ranks=(rank,))
        found = ModuleAgreement(0, 0, 0, error, first, options.tolerance)
        return replace(found, on=_name_ranks(first.ranks, grid))
    each = [views.of(rank, explains=False).judge() for rank in range(len(found_on))]
    wrong = [rank for rank, one in enumerate(each) if one.first is not None]
    if not wrong:
        return max(each, key=lambda one: one.worst)
    place = {rank: _order(first) for rank in wrong if (first := each[rank].first)}
    rank = min(wrong, key=lambda rank: place[rank])
    found = views.of(rank, explains=True).judge()
    with_it = {r for other in wrong if place[other] == place[rank] for r in _ranks(each[other])}
    return replace(found, on=_name_ranks(sorted(with_it), grid))


def _order(first: FirstDifference) -> tuple[bool, float]:
    is_backward = first.direction == "backward"
    return is_backward, -first.step if is_backward else first.step


def _ranks(found: ModuleAgreement) -> Sequence[int]:
    return found.first.ranks if found.first else ()


def _name_ranks(ranks: Sequence[int], grid: Grid) -> str:
    if len(ranks) == grid.count:
        return "on every rank"
    return "on " + ", ".join(grid.describe(rank) for rank in ranks)


def _is_mean_of_means(edge: FlatEdge, theirs: Array, tolerance: float) -> bool:
    """Whether the mean of the ranks' losses takes means over different numbers of targets."""
    if edge.step is None or edge.step.operator != "cross_entropy" or not off(theirs, edge.array):
        return False
    arrays = [each.array for each in edge.step.inputs]
    means = (
        array for words, array in variants(edge.step, arrays, OtherWeights({})) if MEANS in words
    )
    return any(off(theirs, np.asarray(each)) <= tolerance for each in means)


@dataclass(frozen=True)
class _Views:
    """The arrays of all ranks, seen by each: its own copy counts where there are several."""

    ranks: RankDumps
    dump: Dump

    @property
    def tensors(self) -> list[str]:
        """The weights, by the names of the code."""
        return [*self.theirs]

    @property
    def theirs(self) -> Arrays:
        """Our gradients under the names and in the layouts of the code."""
        flat, held = self.dump.flat, self.dump.held
        ours = {p: flat.gradients.get(p, np.zeros_like(e.array)) for p, e in flat.params.items()}
        if held.names is None:
            return ours
        spelled = rename.to_checkpoint(held.names, ours, size_numbers(held.program))
        short = {name.removeprefix(held.names.prefix): array for name, array in spelled.items()}
        return {**short, **spelled}

    def of(self, rank: int, *, explains: bool) -> CodeComparison:
        """The comparison of what one rank sees."""
        dump, tolerance = self.dump, self.ranks.options.tolerance
        shared, scale = self._losses(rank)
        run = dump.run()
        run.events = [event for event in run.events if event.edge not in shared]
        for event in run.events:
            name = event.key
            event.ranks = self.ranks.array(name, rank)
            if GRADIENT + name in self.ranks.everywhere:
                parts = self.ranks.array(GRADIENT + name, rank)
                event.rank_gradients = replace(parts, parts=[each * scale for each in parts.parts])
        held = {
            name: whole
            for name, edge in dump.flat.outputs.items()
            if name in self.ranks.everywhere
            and (whole := shared.get(name) or self.ranks.array(name, rank).like(edge.array))
        }
        results = {name: whole.array for name, whole in held.items()}
        gradients, holders = self._gradients(rank)
        held |= {
            GRADIENT + path: WholeArray(array, holders[path]) for path, array in gradients.items()
        }
        compared = dump.beside(run, results, gradients, tolerance)
        flat = replace(dump.flat, sizes={**self.ranks.mesh, **dump.flat.sizes})
        return replace(compared, flat=flat, held=held, explains=explains)

    def _gradients(self, rank: int) -> tuple[Arrays, Arrays]:
        """The gradients of our parameters, and the rank that each number is from."""
        found: dict[str, WholeArray] = {}
        for name, ours in self.theirs.items():
            if GRADIENT + name in self.ranks.everywhere:
                whole = self.ranks.array(GRADIENT + name, rank).like(ours)
                if whole is None:
                    has = list(self.ranks.found[rank][GRADIENT + name].shape)
                    raise InputError(
                        f"{GRADIENT}{name} of rank {rank} must have the shape of {name} on "
                        f"one device, {list(ours.shape)}; found {has}"
                    )
                found[GRADIENT + name] = whole
        arrays = {name: whole.array for name, whole in found.items()}
        holders = {name: whole.holder for name, whole in found.items()}
        held, flat = self.dump.held, self.dump.flat
        return gradients_of(held, arrays, flat), gradients_of(held, holders, flat)

    def _losses(self, rank: int) -> tuple[dict[str, WholeArray], float]:
        """Losses that ranks have of their own parts of a batch, put together.

        Where it is their mean that is ours, gradients of edges are as many times too large.
        """
        known, grid = self.ranks.cuts(), Grid(dict(self.ranks.mesh))
        over = {axis for name in self.dump.inputs for _, axis, *_ in known.get(name, ())}
        shared: dict[str, WholeArray] = {}
        scale = 1.0
        group = grid.group(rank, "*".join(over)) if over else ()
        for name, edge in self.dump.flat.outputs.items():
            if edge.array.ndim == 0 and group and name in self.ranks.everywhere:
                parts = np.array([self.ranks.found[each][name].reshape(()) for each in group])
                near = self.ranks.options.tolerance
                own = parts[group.index(rank)]
                for whole, factor in ((parts.mean(), 1 / len(group)), (parts.sum(), 1.0)):
                    if off(np.asarray(own), edge.array) > near >= off(whole, edge.array):
                        shared[name] = WholeArray(np.asarray(whole), np.full((), rank))
                        scale = factor
                if name not in shared and _is_mean_of_means(edge, parts.mean(), near):
                    shared[name] = WholeArray(parts.mean(), np.full((), rank))
        return shared, scale
