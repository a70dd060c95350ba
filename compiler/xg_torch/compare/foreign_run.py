"""Collect the tensors that other code shows, and find the edge of the diagram that each is."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, signature
from itertools import combinations, product
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from xg.cli.input_arrays import Published, at_sizes_of, expected_inputs, size_numbers
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, fields, is_dataclass
from xg.driver import Program
from xg.frontend.project import Project
from xg.frontend.typed import dims_of
from xg.ir.walk import join, readers
from xg.sharding.local import ShardSpec
from xg.verify.proof_sizes import verification_sizes
from xg.verify.rank_comparison import window
from xg_runtime.errors import InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.names import Names
from xg_runtime.ranks.grid import Grid
from xg_runtime.run import fit, random_inputs
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, FlatStep, in_shape, off

if TYPE_CHECKING:
    from argparse import Namespace

    from torch import Tensor, nn


# Arrays that the ranks of a mesh hold of one tensor, put together as one device would hold it.
#
# Their code may cut a tensor along other axes than the plan does, so the axes are found by shape,
# and by numbers where several would do. Ranks may also hold terms of a sum that is taken later.


NEARER: Final = 0.5  # how far off a sum is beside its terms, to be what was meant


@dataclass(frozen=True, slots=True, eq=False)
class WholeArray:
    """A tensor of all ranks in a shape of ours; `holder` is the rank that each number is from.

    With `is_terms` each rank has a term of a sum, and the array is one of these.
    """

    array: Array
    holder: Array
    is_terms: bool = False

    def wrong_ranks(self, ours: Array, tolerance: float) -> tuple[int, ...]:
        """The ranks whose own numbers differ; all that hold some where none does by itself."""
        ranks = [int(rank) for rank in np.unique(self.holder)]
        parts = {rank: self.holder == rank for rank in ranks}
        wrong = [r for r, own in parts.items() if off(self.array[own], ours[own]) > tolerance]
        return tuple(wrong or ranks)


@dataclass(frozen=True, slots=True, eq=False)
class RankArrays:
    """Hold one tensor's parts by rank; among copies, the copy on rank `seen_by` counts."""

    parts: Sequence[Array]
    mesh: Mapping[str, int]
    seen_by: int = 0

    def joined(self, cuts: ShardSpec) -> WholeArray:
        """The tensor that is cut so."""
        grid, shape = Grid(dict(self.mesh)), list(self.parts[0].shape)
        for axis, over, *_ in cuts:
            shape[axis] *= grid.size(over)
        whole, holder = np.empty(shape, self.parts[0].dtype), np.zeros(shape, np.int64)
        cut = {axis for _, over, *_ in cuts for axis in grid.axes(over)}
        at = grid.coordinates(self.seen_by)
        for number, part in enumerate(self.parts):
            place = grid.coordinates(number)
            if all(place[axis] == at[axis] for axis in self.mesh if axis not in cut):
                where = window(part.shape, cuts, place, self.mesh)
                whole[where], holder[where] = part, number
        return WholeArray(whole, holder)

    def like(self, ours: Array) -> WholeArray | None:
        """The tensor in the shape of ours, cut as brings it nearest; None where nothing fits."""
        best: WholeArray | None = None
        for cuts in self._ways(ours.size):
            found = _reshape(self.joined(cuts), ours.shape)
            if found is not None and (
                best is None or off(found.array, ours) < off(best.array, ours)
            ):
                uncut = [axis for axis in self.mesh if axis not in {over for _, over, *_ in cuts}]
                best = WholeArray(
                    found.array, found.holder, self._are_terms(found, ours, cuts, uncut)
                )
        return best

    def _ways(self, size: int) -> Iterator[ShardSpec]:
        """Yield the cuts under which the parts make a tensor of this size."""
        first = self.parts[0]
        if any(part.shape != first.shape for part in self.parts):
            return
        axes = [axis for axis, ranks in self.mesh.items() if ranks > 1]
        for count in range(len(axes) + 1):
            for over in combinations(axes, count):
                if first.size * prod(self.mesh[axis] for axis in over) == size:
                    for places in product(range(-first.ndim, 0), repeat=count):
                        yield tuple(zip(places, over, strict=True))

    def _are_terms(
        self, found: WholeArray, ours: Array, cuts: ShardSpec, uncut: Sequence[str]
    ) -> bool:
        """Whether the sum over ranks that should be copies is much nearer than a copy."""
        if ours.dtype.kind != "f":
            return False
        grid, apart = Grid(dict(self.mesh)), off(found.array, ours)
        for count in range(1, len(uncut) + 1):
            for over in combinations(uncut, count):
                groups = (grid.group(rank, "*".join(over)) for rank in range(len(self.parts)))
                sums = [np.sum([self.parts[each] for each in group], axis=0) for group in groups]
                together = RankArrays(sums, self.mesh, self.seen_by).joined(cuts)
                shaped = _reshape(together, ours.shape)
                if shaped is not None and off(shaped.array, ours) < NEARER * apart:
                    return True
        return False


def _reshape(found: WholeArray, shape: tuple[int, ...]) -> WholeArray | None:
    array, holder = in_shape(found.array, shape), in_shape(found.holder, shape)
    return None if array is None or holder is None else WholeArray(array, holder)


@dataclass(slots=True, eq=False)
class Event:
    """One tensor that a module was given, or gave, and its gradient once that is known.

    `edge` is set where the edge of the diagram is known, instead of a module. Where several ranks
    ran, `ranks` and `rank_gradients` are what all of them have, and `array` is that of one.
    """

    module: str
    kind: Literal["input", "output"]
    array: Array
    gradient: Array | None = None
    call: int = 0
    edge: str | None = None
    ranks: RankArrays | None = None
    rank_gradients: RankArrays | None = None

    @property
    def key(self) -> str:
        """Return its array name: the edge, or the module with ``@1`` for its second call."""
        return self.edge or key_of(self.module, self.kind, self.call)

    def __str__(self) -> str:
        return f"the {self.kind} of {self.module}" if self.module else f"{self.edge}"


def key_of(module: str, kind: str, call: int) -> str:
    """The name of a tensor of a module among arrays: ``layers.0.up@1.input``."""
    return module + (f"@{call}" if call else "") + (".input" if kind == "input" else "")


def event_of(key: str, array: Array, gradient: Array | None) -> Event:
    """The tensor of a module that has this name among arrays."""
    name = key.removesuffix(".input")
    module, _, call = name.partition("@")
    kind = "output" if name == key else "input"
    return Event(module, kind, array, gradient, int(call) if call.isdecimal() else 0)


@dataclass(slots=True)
class ForeignRun:
    """Everything that one run of their code showed; `outputs` are in the order of its result."""

    events: list[Event] = field(default_factory=list[Event])
    outputs: list[tuple[str, Array]] = field(default_factory=list[tuple[str, Array]])
    gradients: dict[str, Array | None] = field(default_factory=dict[str, "Array | None"])
    direct: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    is_whole: bool = True  # otherwise a gradient that is not there says nothing
    tied: Mapping[str, str] = field(default_factory=dict[str, str])  # names of one tensor


# Which edge of the diagram a tensor of their code should be, by the parameters around it.
#
# A module with parameters of its own reads an edge and makes one: the operand of the first step
# that reads them, and the first result that depends on all. A module around others makes a result
# that depends on all of theirs, or one that follows from it without further parameters. Numbers
# decide only among these.


FOLLOWING: Final = 12  # results that are looked at behind the first that depends on all
Owners = Mapping[str, Sequence[Sequence[str]]]  # by tensor: our parameters, parts of it in order


@dataclass(slots=True, eq=False)
class MatchedEdge:
    """A tensor of theirs as an edge of ours: in our shape, and how far off.

    `held` and `held_gradient` say which rank has which number, where their code ran on several.
    """

    event: Event
    edge: FlatEdge
    array: Array
    gradient: Array | None
    error: float
    held: WholeArray | None = None
    held_gradient: WholeArray | None = None

    @property
    def is_terms(self) -> bool:
        """Whether a module gave terms of a sum over ranks, which its caller takes."""
        return self.event.edge is None and self.held is not None and self.held.is_terms


@dataclass(slots=True)
class Matches:
    """All tensors that have an edge, in the order of their code, and how many have none."""

    found: list[MatchedEdge] = field(default_factory=list[MatchedEdge])
    without: list[Event] = field(default_factory=list[Event])

    def agreeing(self, tolerance: float) -> set[FlatEdge]:
        """The edges whose numbers are theirs."""
        return {match.edge for match in self.found if match.error <= tolerance}


@dataclass(frozen=True, slots=True)
class Matcher:
    """One run of ours, one of theirs, and what their parameters are called here."""

    flat: FlatProgram
    run: ForeignRun
    owners: Owners
    tolerance: float

    def match(self) -> Matches:
        """Every event with its edge."""
        matches = Matches()
        named = {edge.full_name: edge for edge in self.flat.edges if edge.name}
        named |= {f"d/{path}": edge for path, edge in self.flat.params.items()}
        for event in self.run.events:
            if event.edge is not None:
                ways = [(event, [named[event.edge]])] if event.edge in named else []
            else:
                ways = list(self._ways(event))
            best = [self._best(part, edges) for part, edges in ways]
            own = [match for match in best if match is not None]
            is_leaf = event.edge is not None or event.module in self.run.direct
            near = (m for m in own if is_leaf or m.error <= self.tolerance)
            matches.found += [match for match in near if not match.is_terms]
            if not own:
                matches.without.append(event)
        return matches

    def _ways(self, event: Event) -> Iterator[tuple[Event, list[FlatEdge]]]:
        """The event, or its parts where one tensor holds several parameters, with their edges."""
        mine = self._params_of(event.module)
        if not mine or any(tensor not in self.owners for tensor in mine):
            return
        columns = max(len(self.owners[tensor]) for tensor in mine)
        direct = event.module in self.run.direct
        if not direct or columns == 1:
            params = {p for tensor in mine for part in self.owners[tensor] for p in part}
            yield event, list(self._candidates(event, params))
            return
        parts = [{self.owners[tensor][i][0] for tensor in mine} for i in range(columns)]
        if event.kind == "input":
            yield event, list(self._candidates(event, parts[0]))
            return
        shapes = [self.flat.params[min(part, key=self._rank)].array.shape for part in parts]
        widths = [shape[-1] for shape in shapes]
        if event.array.shape[-1:] != (sum(widths),):
            return
        cuts = list(np.cumsum(widths)[:-1])
        arrays = np.split(event.array, cuts, -1)
        grads = [None] * columns if event.gradient is None else np.split(event.gradient, cuts, -1)
        for array, gradient, part in zip(arrays, grads, parts, strict=True):
            piece = Event(event.module, event.kind, array, gradient, event.call)
            yield piece, list(self._candidates(piece, part))

    def _rank(self, path: str) -> int:
        return -self.flat.params[path].array.ndim

    def _params_of(self, module: str) -> list[str]:
        """Return the tensors of a module: its own, or else all in the modules inside it."""
        own = self.run.direct.get(module)
        start = f"{module}." if module else ""
        names = own or [name for name in self.run.tied if name.startswith(start)]
        return list(dict.fromkeys(self.run.tied.get(name, name) for name in names))

    def _candidates(self, event: Event, params: set[str]) -> Iterator[FlatEdge]:
        """The edges that an event may be, for each place where the parameters are read.

        The place of its own call is the first.
        """
        uses = {
            param: [step for step in self.flat.steps if _reads(step, param)] for param in params
        }
        count = max(map(len, uses.values()), default=0)
        own = min(event.call, count - 1)
        for place in sorted(range(count), key=lambda place: place != own):
            steps = {p: each[min(place, len(each) - 1)] for p, each in uses.items() if each}
            if event.kind == "input":
                yield from _operand(self.flat.steps, steps)
            else:
                yield from self._results(steps)

    def _results(self, uses: Mapping[str, FlatStep]) -> Iterator[FlatEdge]:
        """The first result that depends on all of them, and what follows without parameters."""
        known: dict[FlatEdge, frozenset[str]] = {}
        wanted, count = frozenset(uses), 0
        for step in self.flat.steps:
            read = frozenset(param for param, use in uses.items() if use is step)
            others = {p for edge in step.inputs for p in edge.of} - wanted
            held = read.union(*(known.get(edge, frozenset()) for edge in step.inputs))
            if not held or (wanted == held and others):
                continue
            for edge in step.outputs[:1]:
                known[edge] = held
                if held == wanted and count < FOLLOWING:
                    count += 1
                    yield edge

    def _best(self, event: Event, edges: Sequence[FlatEdge]) -> MatchedEdge | None:
        """The match with the nearest numbers; where none are near the first, of its own call."""
        tried = [match for edge in edges if (match := compared(event, edge)) is not None]
        if not tried:
            return None
        best = min(tried, key=lambda match: match.error)
        return best if best.error <= self.tolerance else tried[0]


def compared(event: Event, edge: FlatEdge) -> MatchedEdge | None:
    """An event as an edge, in its shape; None where the shapes do not fit."""
    if event.ranks is not None:
        return _of_ranks(event, edge)
    array = in_shape(event.array, edge.array.shape)
    if array is None:
        return None
    gradient = None if event.gradient is None else in_shape(event.gradient, edge.array.shape)
    return MatchedEdge(event, edge, array, gradient, off(array, edge.array))


def _of_ranks(event: Event, edge: FlatEdge) -> MatchedEdge | None:
    assert event.ranks is not None
    held, back = event.ranks.like(edge.array), None
    if held is None:
        return None
    if event.rank_gradients is not None and edge.gradient is not None:
        back = event.rank_gradients.like(edge.gradient)
    error = off(held.array, edge.array)
    return MatchedEdge(event, edge, held.array, back and back.array, error, held, back)


def _reads(step: FlatStep, param: str) -> bool:
    """Whether a step brings a parameter, or what is made from it alone, together with the rest."""
    if not any(param in edge.of for edge in step.inputs):
        return False
    return not all(edge.of for edge in step.inputs)


def _operand(steps: Sequence[FlatStep], uses: Mapping[str, FlatStep]) -> Iterator[FlatEdge]:
    """The edge that the first of the uses reads besides parameters.

    Where the block around it has no other parameters it is that block's first input.
    """
    first = min(uses.values(), key=steps.index)
    record = first.record
    held = {join(record.path, str(value.name)) for value in record.graph.param_values()}
    if record.path and held <= uses.keys() and not record.calls:
        inside = [edge for step in steps if step.record is record for edge in step.inputs]
        entry = record.values[record.graph.inputs[0]]
        yield from [edge for edge in inside if edge.array is entry][:1]
        return
    yield from [edge for edge in first.inputs if not edge.of][:1]


# Build and call a torch module of the user, with hooks on every tensor and gradient.


# pyright: reportUnknownMemberType=false


def built(text: str) -> nn.Module:
    """The module; raises InputError with the line of the user's code that failed."""
    import torch

    place, _, attribute = text.rpartition(":")
    if not place or not attribute:
        raise InputError(
            "--against takes MODULE:BUILD, such as mymodel:build or my/model.py:build; found "
            f"{text}"
        )
    folder = str(Path(place).resolve().parent) if place.endswith(".py") else str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        found: Any = getattr(_load_module(text, place), attribute, None)
        if found is None:
            raise InputError(f"{place} has no function or class {attribute}")
        torch.manual_seed(0)
        module: Any = found if isinstance(found, torch.nn.Module) else found()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise failure(text, "cannot be built", error) from error
    finally:
        sys.path.remove(folder)
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{text} must return a torch.nn.Module; found {module!r:.60}")
    return module


def failure(text: str, how: str, error: BaseException) -> InputError:
    """An error of the user's code, with its own line."""
    import torch

    said = (str(error).strip().splitlines() or ["no reason"])[0]
    frames = traceback.extract_tb(error.__traceback__)
    others = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
    own = [each for each in frames if not each.filename.startswith(others)]
    where = f"{Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}" if own else ""
    reason = f"{text} {how}: {type(error).__name__}: {said}"
    return InputError(reason, (where,) if where else ())


def _load_module(text: str, place: str) -> ModuleType:
    """The user's Python module, by its name or by its file."""
    if not place.endswith(".py"):
        try:
            return import_module(place)
        except ModuleNotFoundError as error:
            if error.name != place.partition(".")[0]:
                raise
            raise InputError(f"{text}: there is no module {place}") from error
    path = Path(place)
    spec = spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise InputError(f"{text}: there is no file {place}")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# A call of code that others wrote: sizes, inputs, which result is which, and what is sent back.


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false


def config_of(module: nn.Module) -> dict[str, Any] | None:
    """The sizes and words that a module keeps as its `config`, as config.json would have them.

    It may be an object or a class, whose attributes they are.
    """
    config: Any = getattr(module, "config", None)
    if isinstance(config, Mapping):
        return dict(config)
    if isinstance(config, type):
        classes = [each for each in reversed(config.__mro__) if each is not object]
        told = {name: value for each in classes for name, value in vars(each).items()}
    elif (to_dict := getattr(config, "to_dict", None)) is not None:
        return dict(to_dict())
    else:
        told = dict(getattr(config, "__dict__", {}))
    plain = (str, int, float, list, dict, type(None))
    return {n: v for n, v in told.items() if isinstance(v, plain) and n[:1] != "_"} or None


def at_all_sizes(
    project: Project, options: Namespace, held: Published, given: Arrays, every: int = 2
) -> Program:
    """The program with a number for every size: of arrays, of the user, and else one that is free.

    Multiples of `every` where the file allows them, as ranks cut them; else those that a proof
    takes.
    """
    graphs = held.program.on_one_device.graphs
    arrays = {**given, **held.params}
    proof = verification_sizes(graphs, graphs.all_numbers)
    open_ = [name for name in proof if name not in size_numbers(held.program)]
    taken = set(size_numbers(held.program).values())
    wished = (n for n in range(4 if every == 2 else every, 100, every) if n not in taken)
    for sizes in (dict(zip(open_, wished, strict=False)), proof):
        own = {name: n for name, n in sizes.items() if name in dims_of(project, options.block)}
        try:
            return at_sizes_of(
                arrays, project, options.block, {**own, **held.settings}
            ).on_one_device
        except DiagnosticError:
            if sizes is proof:
                raise
    raise AssertionError("the last sizes compile or raise")


def all_inputs(program: Program, given: Arrays, seed: int, ranks: int = 1) -> Arrays:
    """The inputs of the diagram: those given, and drawn ones in place of the others."""
    expectations = expected_inputs(program)
    missing = {name: want for name, want in expectations.items() if name not in given}
    drawn = random_inputs(missing, {}, seed)
    for value in program.graphs.main.inputs:
        name = str(value.name)
        uses = [(step.op.name, operand) for step, operand in readers(program.graphs, value)]
        is_weight = any(use == ("cross_entropy", "w") for use in uses)
        left_out = 0 if is_weight else expectations[name].ignored
        if name in drawn and left_out is not None and all(op != "embedding" for op, _ in uses):
            drawn[name] = np.where(uneven_targets(drawn[name].shape, ranks), left_out, drawn[name])
    arrays = {**drawn, **{name: given[name] for name in given if name in expectations}}
    return fit(arrays, expectations, dtype="float64", source="the inputs")


def uneven_targets(shape: tuple[int, ...], ranks: int) -> Array:
    """Choose targets to ignore, more of them toward the end of each axis.

    So `ranks` that share an axis have different numbers of targets that count, and each has some.
    """
    places = np.indices(shape)
    lengths = np.reshape(shape, (-1, *(1 for _ in shape)))
    behind = ((places + 0.5) / lengths).sum(0) >= 0.6 * len(shape)
    chosen = behind & ((lengths - 1 - places).sum(0) % 2 == 0)
    for axis in range(len(shape)):
        rest = tuple(each for each in range(len(shape)) if each != axis)
        if shape[axis] <= ranks:
            chosen &= ~chosen.all(rest, keepdims=True)
    return chosen


def called_with(
    module: nn.Module, names: Names | None, inputs: Arrays
) -> tuple[dict[str, Any], int]:
    """The tensors that the module is called with, by name, and how many of them by place."""
    import torch

    tensors = {name: torch.from_numpy(array.copy()) for name, array in inputs.items()}
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.requires_grad_()
    kinds = signature(module.forward).parameters
    table = names.inputs if names else {}
    wanted = {name: ours for name, ours in table.items() if ours in tensors}
    wanted |= {name: name for name in kinds if name in tensors}
    if wanted:
        return {name: tensors[ours] for name, ours in wanted.items()}, 0
    placed = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    places = [p for p in kinds.values() if p.kind in placed]
    required = [p for p in places if p.default is Parameter.empty]
    several = any(p.kind is Parameter.VAR_POSITIONAL for p in kinds.values())
    count = len(tensors) if several else min(len(tensors), len(places))
    if len(required) > len(tensors):
        raise InputError(
            f"the module's forward needs {', '.join(p.name for p in required)}, but the "
            f"diagram has {', '.join(tensors)}: map them under [inputs] in the file of names"
        )
    return dict(list(tensors.items())[:count]), count


def output_shapes(program: Program) -> dict[str, tuple[int, ...]]:
    """The shapes of the diagram's outputs."""
    sizes = size_numbers(program)
    return {
        name: tuple(n if isinstance(n, int) else sizes[n] for n in spec.shape)
        for name, spec in program.outputs.items()
    }


def results_of(program: Program, outputs: Sequence[tuple[str, Array]]) -> dict[str, int]:
    """The place of each of the diagram's outputs among the module's results, by name or shape."""
    shapes = output_shapes(program)
    found: dict[str, int] = {}
    for by_name in (True, False):
        for name, shape in shapes.items():
            for place, (its, array) in enumerate(outputs):
                is_free = name not in found and place not in found.values()
                if is_free and (its == name or not by_name) and in_shape(array, shape) is not None:
                    found[name] = place
    if not found:
        ours = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        theirs = ", ".join(str(list(array.shape)) for _, array in outputs) or "nothing"
        raise InputError(
            f"no result of the module has the shape of an output: it returns {theirs}, and "
            f"the diagram has {ours}"
        )
    return found


def cotangents_of(program: Program, names: list[str], seed: int) -> Arrays:
    """1 for a loss, else random numbers for every result that both have."""
    outputs, shapes = program.outputs, output_shapes(program)
    floats = [name for name in names if outputs[name].dtype == "float"]
    losses = [name for name in floats if not shapes[name]]
    if losses:
        return {name: np.ones(()) for name in losses}
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shapes[name]) for name in floats}


# A run of a torch module with hooks on everything that it calls: tensors, and their gradients.


def parameters(module: nn.Module) -> dict[str, Tensor]:
    """Every parameter under each of its names."""
    return dict(module.named_parameters(remove_duplicate=False))


class HookedRun:
    """One run of a module, forward and then backward."""

    def __init__(self, module: nn.Module, given: Mapping[str, Tensor], positional: int) -> None:
        """Run forward: the first `positional` tensors by place, the others by name."""
        self.module, self.found = module, ForeignRun()
        self.calls: dict[tuple[str, str], int] = {}
        params = parameters(module)
        first = {id(tensor): name for name, tensor in reversed(params.items())}
        self.found.tied = {name: first[id(tensor)] for name, tensor in params.items()}
        self.found.direct = _direct(module)
        handles = list(self._hooks())
        try:
            tensors = list(given.values())[:positional]
            named = dict(list(given.items())[positional:])
            self.result = list(_tensors(module(*tensors, **named)))
        finally:
            for handle in handles:
                handle.remove()
        self.found.outputs = [(name, _array(tensor)) for name, tensor in self.result]

    def backward(self, cotangents: Mapping[int, Array]) -> ForeignRun:
        """Send gradients back from these outputs, by their place."""
        import torch

        self.module.zero_grad(set_to_none=True)
        roots = [(self.result[place][1], d) for place, d in cotangents.items()]
        roots = [(tensor, d) for tensor, d in roots if tensor.requires_grad]
        if roots:
            arrays = [torch.as_tensor(d, dtype=t.dtype).reshape(t.shape) for t, d in roots]
            torch.autograd.backward([tensor for tensor, _ in roots], arrays)
        for name, tensor in parameters(self.module).items():
            self.found.gradients[name] = None if tensor.grad is None else whole(tensor.grad)
        return self.found

    def _hooks(self) -> Iterator[Any]:
        """Hooks on every module that has parameters, but for the whole."""
        for name, module in self.module.named_modules():
            if name and any(True for _ in module.parameters()):
                is_leaf = bool(self.found.direct.get(name))
                if is_leaf:
                    yield module.register_forward_pre_hook(self._before(name), with_kwargs=True)
                yield module.register_forward_hook(self._after(name))

    def _before(self, name: str) -> Any:  # noqa: ANN401 - a hook
        def hook(_: object, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
            for _, tensor in _tensors((*args, *kwargs.values())):
                self._note(name, "input", tensor)
                break

        return hook

    def _after(self, name: str) -> Any:  # noqa: ANN401 - a hook
        def hook(_: object, __: object, output: object) -> None:
            for _, tensor in _tensors(output):
                self._note(name, "output", tensor)
                break

        return hook

    def _note(self, name: str, kind: Literal["input", "output"], tensor: Tensor) -> None:
        number = self.calls.get((name, kind), 0)
        self.calls[name, kind] = number + 1
        event = Event(name, kind, _array(tensor), call=number)
        self.found.events.append(event)
        if tensor.requires_grad:

            def store_gradient(gradient: Tensor) -> None:
                event.gradient = _array(gradient)

            tensor.register_hook(store_gradient)


def _direct(module: nn.Module) -> dict[str, list[str]]:
    """The parameters of modules that have some of their own, and no module below with others."""
    found: dict[str, list[str]] = {}
    for name, each in module.named_modules():
        start = f"{name}." if name else ""
        own = [start + param for param, _ in each.named_parameters(recurse=False)]
        if own and len(own) == len(list(each.named_parameters(remove_duplicate=False))):
            found[name] = own
    return found


def _tensors(found: object, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a result, with names where it has names."""
    import torch

    if isinstance(found, torch.Tensor):
        yield name, found
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _tensors(value, str(key))
    elif isinstance(found, list | tuple):
        for value in found:
            yield from _tensors(value)
    elif is_dataclass(found):
        for each in fields(found):
            yield from _tensors(getattr(found, each.name), each.name)


def whole(tensor: Tensor) -> Array:
    """All numbers of a tensor, which each rank may have a part of: then every rank has to call."""
    gathered: Any = getattr(tensor, "full_tensor", None)
    return _array(tensor if gathered is None else gathered())


def _array(tensor: Tensor) -> Array:
    """Copy the numbers that this rank has of a tensor, with floats in float64."""
    own: Any = getattr(tensor, "to_local", None)
    plain = (tensor if own is None else own()).detach().cpu()
    return np.array((plain.double() if plain.is_floating_point() else plain).numpy())
