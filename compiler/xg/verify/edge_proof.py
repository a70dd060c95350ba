"""Try the edges of a program: every form of its code at each of them, against the interpreter.

Random numbers never tie, are never zero, and fill axes of at least two; errors hide in the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from xg.codegen.backend import FLOATS, Backend, backends, find, named
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.driver import Program
from xg.frontend.project import Project
from xg.frontend.typed import shape_project
from xg.ir.functions import FUNCTIONS as ELEMENTARY
from xg.ir.graph import Apply, Call, IRProgram, Value
from xg.ir.prim import ARITHMETIC, COMPARE, RANDOM, Expr
from xg.verify.domains import DOMAINS, free_axes, ranges_of, refusal, refuse_nan, short
from xg.verify.edge_point import BY_CHANCE, CLOSE, LEFT, Mismatch, Passes, Point, largest
from xg.verify.pipeline_proof import PipelineComparison
from xg.verify.plan_proof import Prepared, RankEdges, comparison_of, prepared
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg.verify.reference.interpret import Interpreter, bind_sizes
from xg_runtime.cells import SCHEDULES
from xg_runtime.errors import InputError, RankError, RunError
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.pipeline import Part

if TYPE_CHECKING:
    from xg_runtime.generate import StepModule


STEP: Final = "steps of generation"
FORM: Final = "step"


# The step of generation: a text in pieces gives what the whole text gives.
#
# The first piece meets a cache of length 0, so the whole text as one piece is tried too. A step
# that keeps nothing is no edge: it does with each position what the whole program does.


# Of these, only a sum over positions or a table of pairs joins different positions.
LOCAL: Final = (ARITHMETIC | COMPARE | RANDOM).union(
    ELEMENTARY,
    ("operand", "const", "neg", "pow", "where", "as_float", "stop", "dropout_apply"),
    ("reshape", "transpose", "broadcast", "contract", "sum", "mean", "max"),
)


def _may_join(program: IRProgram) -> bool:
    """Whether a result may depend on several positions; what is called may do anything.

    Most blocks without a step are found here, before the package of steps is imported.
    """
    main = program.main
    shapes = [type_.shape for type_ in main.output_types if len(type_.shape) > 1]
    names = {name for shape in shapes for name in shape[-2].symbols()}
    steps = (step.body(main.types) for step in main.steps if isinstance(step, Apply))
    exprs = [expr for body in steps for expr in body.order()]
    return bool(main.calls) or any(_joins(expr, name) for expr in exprs for name in names)


def _joins(expr: Expr, name: str) -> bool:
    """Whether a primitive may join positions along an axis."""
    axes = _count(expr, name)
    before = any(_count(arg, name) for arg in expr.args)
    if expr.prim not in LOCAL:
        return before or axes > 0
    return axes > 1 or (before and axes == 0)


def _count(expr: Expr, name: str) -> int:
    return sum(name in dim.symbols() for dim in expr.shape)


def _remembers(step: IRProgram, key: str) -> bool:
    """Whether an output of a graph depends on a state: one that counts positions is not read."""
    graph = step.graphs[key]
    past: set[Value] = {state.past for state in graph.states}
    for each in graph.steps:
        is_read = not past.isdisjoint(each.inputs)
        if is_read or (isinstance(each, Call) and _remembers(step, each.callee)):
            past.update(each.outputs)
    return not past.isdisjoint(graph.outputs)


@dataclass(frozen=True)
class StepForm:
    """A loaded module of a step, and what it is called in messages."""

    name: str
    module: StepModule

    def run(self, params: Arrays, sizes: Mapping[str, int], pieces: Sequence[Arrays]) -> Arrays:
        """The outputs of all pieces, joined along the positions."""
        made_by = getattr(self.module, "module", self.module)
        free: Mapping[str, object] = inspect.signature(made_by.empty_cache).parameters
        given = {name: size for name, size in sizes.items() if name in free}
        cache = self.module.empty_cache(params, **given)
        found: list[Arrays] = []
        for piece in pieces:
            outputs, cache = self.module.step(params, cache, piece)
            found.append({name: np.array(x) for name, x in outputs.items()})
        return {name: np.concatenate([each[name] for each in found], -2) for name in found[0]}


@dataclass(frozen=True)
class StepTrial:
    """The step of a program: its output and axis of positions, its inputs and the whole result."""

    step: Program
    output: str
    axis: str
    inputs: Arrays
    expected: Array

    @classmethod
    def of(cls, program: Program, base: Point) -> StepTrial | None:
        """Derive the step; None without one, or without the package that derives it."""
        if not _may_join(base.program):
            return None
        try:
            step = program.step()
            if not _remembers(step.graphs, step.graphs.entry):
                return None
            (output,) = step.graphs.main.output_names
            once = program.prologue(output)
        except DiagnosticError:  # no positions, or earlier ones depend on later ones
            return None
        plain = replace(base, seed=None)
        inputs, whole = plain.exact, plain.interpret()[0]
        if once is not None:
            inputs = {**inputs, **Interpreter(once.graphs, base.params).forward(inputs)[0]}
        axis = str(step.graphs.main.output_types[0].shape[-2].name)
        return cls(step, output, axis, inputs, whole[output])

    def forms(self, backends: Sequence[str]) -> Iterator[StepForm]:
        """Every form of the step in these backends; raises DiagnosticError for what has no code."""
        for name in backends:
            backend = find(name)
            if FORM not in backend.forms:
                continue
            for kernels in (False, True) if backend.parts.kernels else (False,):
                module = self.step.load(name, kernels=kernels)
                title = f"{backend.title} with kernels" if kernels else backend.title
                yield StepForm(title, cast("StepModule", backend.step_on_arrays(module)))

    def pieces(self) -> Iterator[tuple[int, ...]]:
        """The lengths of the pieces of a text: one piece, one position and the rest, each alone."""
        length = self.expected.shape[-2]
        ways = (length,), (1, length - 1), (1,) * length
        yield from dict.fromkeys(way for way in ways if 0 not in way and way)

    def check(self, form: StepForm, base: Point, lengths: Sequence[int]) -> Mismatch | None:
        """How the outputs of the pieces differ from those of the whole text."""
        ends = np.cumsum(lengths)
        pieces = [self._cut(end - n, end) for n, end in zip(lengths, ends, strict=True)]
        found = form.run(base.params, base.program.all_numbers, pieces)[self.output]
        wanted = self.expected
        if found.shape != wanted.shape:
            return Mismatch(self.output, f"has shape {list(found.shape)}")
        bound = CLOSE * (np.abs(wanted) + largest(wanted)) + LEFT
        with np.errstate(all="ignore"):
            wrong = ~((found == wanted) | (np.isnan(found) & np.isnan(wanted)))
            wrong &= ~(np.abs(found - wanted) <= bound) | ~np.isfinite(wanted)
        if not wrong.any():
            return None
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        return Mismatch(self.output, "", place, float(found[place]), float(wanted[place]))

    def _cut(self, start: int, end: int) -> Arrays:
        """The inputs of a step at some positions."""
        main = self.step.graphs.main
        given: dict[str, Array] = {}
        for value in main.inputs:
            array: Any = self.inputs[str(value.name)]
            for place, dim in enumerate(main.types[value].shape):
                if dim.name == self.axis:
                    array = np.take(array, range(start, end), place)
            given[str(value.name)] = array
        return given


# The forms of a program: the module of each backend, with kernels and without, run on arrays.


@dataclass(frozen=True)
class Form:
    """A loaded module, and what it is called in messages; torch's has a model for autograd too."""

    name: str
    backend: Backend
    module: ModuleType
    autograd: bool = False
    _typed: dict[str | None, Passes] = field(default_factory=dict[str | None, Passes], repr=False)

    def passes(self, point: Point) -> Passes:
        """Return the forward and backward pass on a point's arrays, in its type of floats."""
        if self.autograd:
            model = named("xg.verify.autograd_model:AutogradModel")
            graphs = point.program
            inputs = graphs.main.inputs
            frozen = frozenset(str(value.name) for value in inputs if value.frozen)
            return cast(Passes, model(self.module, graphs.all_numbers, frozen))
        if point.dtype not in self._typed:  # one object for all points: JAX compiles for each again
            passes = cast(Passes, self.backend.on_arrays(self.module, point.dtype))
            self._typed[point.dtype] = passes
        return self._typed[point.dtype]

    def has(self, dtype: str | None) -> bool:
        """Whether it computes in a type of floats."""
        if dtype is None or self.autograd:
            return dtype is None
        return dtype != "bfloat16" or self.backend.runs.half


def forms_of(program: Program, backends: Sequence[str]) -> Iterator[Form]:
    """Every form of a program in these backends: plain, with kernels if it has any, a Model."""
    for name in backends:
        backend = find(name)
        for kernels in (False, True) if backend.parts.kernels else (False,):
            module = program.load(name, kernels=kernels)
            title = f"{backend.title} with kernels" if kernels else backend.title
            yield Form(title, backend, module)
            if hasattr(module, "Model"):
                yield Form(f"{title}'s Model under autograd", backend, module, autograd=True)


def integer_types(below: int) -> list[str]:
    """The types that hold all integers below a number, the narrowest first."""
    held = [] if below > 2 else ["bool"]
    types = ("uint8", "int8", "int32", "int64")
    return held + [name for name in types if below - 1 <= np.iinfo(name).max]


NARROW: Final = tuple(name for name in FLOATS if name != "float64")
DRAWS: Final = 3  # few numbers may meet at no kink, or all be stopped by a rectifier
JIT: Final = "jit"
LARGEST: Final = "largest integers"
COMPILED: Final = "jax"  # the library that compiles a module again for each shape and type


@dataclass(frozen=True)
class Disagreement:
    """A form that is wrong at an edge, with the numbers of the sizes there."""

    edge: str
    form: str
    sizes: Mapping[str, int]
    mismatch: Mismatch


@dataclass(frozen=True)
class EdgeProof:
    """The edges that were tried, in which forms, and those that were not, with the reasons."""

    tried: tuple[str, ...]
    backends: tuple[str, ...]
    forms: tuple[str, ...]
    left_out: Mapping[str, str]
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every form agrees at every edge."""
        return not self.disagreements


@dataclass(slots=True)
class _Trial:
    """The edges of a program as they are tried."""

    forms: Sequence[Form]
    tried: dict[str, None] = field(default_factory=dict[str, None])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    wrong: dict[tuple[str, str], Disagreement] = field(
        default_factory=dict[tuple[str, str], Disagreement]
    )

    def hold(self, point: Point, forms: Iterable[Form] | None = None) -> None:
        """Check forms at a point at which the program has values."""
        if not self.has_values(point):
            return
        for form in self.forms if forms is None else forms:
            if form.has(point.dtype):
                self.note(point, form.name, self.mismatch(point, form))
        self.note_chances(point)

    def note_chances(self, point: Point) -> None:
        """Name the tensors of a point that no form could be wholly compared with."""
        for name, reason in sorted(point.chances.items()):
            self.left_out[f"{name} at {point.edge}"] = reason

    def has_values(self, point: Point) -> bool:
        """Whether the interpreter gives numbers at a point; if not, the edge is left out."""
        try:
            undefined = point.undefined_output
            gradients = [] if undefined else point.undefined_gradients
        except (ArithmeticError, LookupError, ValueError) as error:
            self.note(point, "the interpreter", Mismatch("", f"stops: {_error_line(error)}"))
            return False
        if undefined is not None:
            self.left_out[point.edge] = _explain_nan(point, undefined)
            return False
        for gradient in gradients:
            self.left_out[f"d{gradient} at {point.edge}"] = "it is not finite there"
        self.tried[point.edge] = None
        return True

    def mismatch(self, point: Point, form: Form) -> Mismatch | None:
        """How a form differs at a point."""
        try:
            return point.check(form.passes(point))
        except Exception as error:  # whatever wrong code does
            return Mismatch("", f"stops: {_error_line(error)}")

    def note(self, point: Point, form: str, mismatch: Mismatch | None) -> None:
        """Keep the first difference of a form at an edge."""
        if mismatch is not None:
            sizes = dict(sorted(point.program.all_numbers.items()))
            found = Disagreement(point.edge, form, sizes, mismatch)
            self.wrong.setdefault((point.edge, form), found)


def try_edges(
    program: Program,
    sizes: Mapping[str, int],
    fixed: Iterable[str],
    seed: int,
    backends: Sequence[str],
    domain: str = "",
    wide: Program | None = None,
) -> EdgeProof:
    """Try a program's edges at these sizes; the file or a setting sets the `fixed` ones.

    `domain` is that of the proof: where a logarithm needs inputs above 0 ties are above 0 too.
    `wide` is the program with larger ranges of integers, if it can have any.
    """
    trial = _Trial(tuple(forms_of(program, backends)))
    graphs = replace(program.graphs, numbers={**program.graphs.numbers, **sizes})
    base = point_at(graphs, seed, domain)
    for number in range(DRAWS):
        trial.hold(_map_to_domain(base.tied(number), domain))
    trial.hold(base.zeros())
    _try_witness(trial, base)
    _try_lengths(trial, base, sizes, free_axes(graphs, fixed), domain)
    _try_integers(trial, base)
    _try_largest_integers(trial, base, wide, backends)
    _try_floats(trial, base, domain)
    _try_steps(trial, base, program, backends)
    if any(form.backend.name == COMPILED for form in trial.forms):
        trial.tried[JIT] = None
    others = list(_untried_backends(backends))
    if others:
        trial.left_out[_join_words(others)] = f"add --against {','.join(others)}"
    return EdgeProof(
        tuple(trial.tried),
        tuple(backends),
        tuple(form.name for form in trial.forms),
        trial.left_out,
        tuple(trial.wrong.values()),
    )


def point_at(program: IRProgram, seed: int, domain: str = "", edge: str = "") -> Point:
    """Numbers in general position; every size of the program has a number."""
    params, inputs = interpret.initial(program, seed), invented.inputs(program, seed)
    return _map_to_domain(Point(edge, program, params, inputs, seed, seed), domain)


def _map_to_domain(point: Point, domain: str) -> Point:
    """A point with inputs in a domain, which leaves what is equal equal."""
    moved = {n: DOMAINS[domain](x) if x.dtype.kind == "f" else x for n, x in point.inputs.items()}
    return replace(point, inputs=moved)


def _try_witness(trial: _Trial, base: Point) -> None:
    """Torch's autograd at ties and zeros, where differences say nothing."""
    if not any(form.autograd for form in trial.forms) or _is_random(base.program):
        return
    for point in (*(base.tied(number) for number in range(DRAWS)), base.zeros()):
        plain = replace(point, seed=None)
        if plain.undefined_output is None:
            trial.note(plain, "torch's autograd", compare_with_autograd(plain))


def compare_with_autograd(point: Point) -> Mismatch | None:
    """How torch's autograd differs from the interpreter at a point without dropout."""
    function = named("xg.verify.autograd_model:autograd")
    autograd = cast(Callable[..., tuple[Arrays, Arrays]], function)
    params, inputs = point.params, point.exact
    sizes = bind_sizes(point.program, {**params, **inputs})
    outputs, gradients = autograd(point.program, sizes, params, inputs, point.cotangents)
    frozen = gradients.keys() - point.expected.gradients.keys()  # of which xg takes none
    return point.compare(outputs, {n: x for n, x in gradients.items() if n not in frozen})


def _is_random(program: IRProgram) -> bool:
    """Return whether a program draws random numbers, for example for dropout."""
    return any(
        expr.prim in RANDOM
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply)
        for expr in step.body(graph.types).order()
    )


def _try_lengths(
    trial: _Trial, base: Point, sizes: Mapping[str, int], free: Sequence[str], domain: str
) -> None:
    """Axes without positions, and axes of one."""
    if not free:
        trial.left_out["lengths 0 and 1"] = "every size has a number in the file or a setting"
    others = [form for form in trial.forms if form.backend.name != COMPILED]
    for edge, program in short(base.program, sizes, free):
        reason = refusal(program)
        if reason is not None:
            trial.left_out[edge] = reason
            continue
        for draw in range(base.draw, base.draw + DRAWS):
            forms = trial.forms if draw == base.draw else others
            trial.hold(point_at(program, draw, domain, edge), forms)


def _try_integers(trial: _Trial, base: Point) -> None:
    """Integers in every type that holds all of them."""
    below = ranges_of(base.program).values()
    types = integer_types(max(below)) if below else []
    if not types or not trial.has_values(replace(base, edge=types[0])):
        return
    for dtype in types:
        compiled = dtype == types[0]  # the narrowest is what wraps first
        forms = [each for each in trial.forms if compiled or each.backend.name != COMPILED]
        trial.hold(base.with_integers(dtype), forms)


def _try_largest_integers(
    trial: _Trial, base: Point, wide: Program | None, backends: Sequence[str]
) -> None:
    """Integers next to their range's end, in the narrowest type that holds them and in int64."""
    graphs = base.program
    if wide is not None:
        graphs = replace(wide.graphs, numbers={**graphs.numbers, **wide.graphs.all_numbers})
    below = ranges_of(graphs).values()
    types = integer_types(max(below)) if below else []
    point = replace(base, program=graphs).with_largest_integers()
    forms = trial.forms if wide is None else tuple(forms_of(wide, backends))
    for dtype in dict.fromkeys(types[:1] + types[-1:]):
        trial.hold(point.with_integers(dtype, LARGEST), forms)


def _try_floats(trial: _Trial, base: Point, domain: str) -> None:
    """Floats of fewer bits, with the results that their rounded numbers have in float64.

    Numbers that nearly tie may fall to either side, so a form is wrong if it is at every draw.
    """
    arrays = (*base.params.values(), *base.inputs.values())
    if all(x.dtype.kind != "f" for x in arrays):
        return  # no array says in which type to compute
    for dtype in NARROW:
        forms = [form for form in trial.forms if form.has(dtype)]
        draws: list[Point] = []
        for form in forms:
            mismatch: Mismatch | None = None
            for number in range(DRAWS):
                if number == len(draws):
                    again = point_at(base.program, base.draw + number, domain)
                    draws.append(again.rounded(dtype))
                point = draws[number]
                if not trial.has_values(point):
                    break
                mismatch = trial.mismatch(point, form)
                if mismatch is None:
                    break
            trial.note(draws[-1], form.name, mismatch)
        for point in draws:
            trial.note_chances(point)


def _try_steps(trial: _Trial, base: Point, program: Program, backends: Sequence[str]) -> None:
    """The step of generation of a program that has one, with a text in pieces."""
    step = StepTrial.of(program, base)
    if step is None:
        return
    try:
        forms = list(step.forms(backends))
    except DiagnosticError as error:
        trial.left_out[STEP] = error.diagnostics[0].message
        return
    for form in forms:
        trial.tried[STEP] = None
        for lengths in step.pieces():
            point = replace(base, edge=f"{STEP}, in pieces of {', '.join(map(str, lengths))}")
            try:
                mismatch = step.check(form, base, lengths)
            except Exception as error:  # whatever wrong code does
                mismatch = Mismatch("", f"stops: {_error_line(error)}")
            trial.note(point, f"{form.name}'s step", mismatch)


def _untried_backends(chosen: Sequence[str]) -> Iterator[str]:
    """The backends that are there and were not asked for."""
    return (n for n, each in backends().items() if n not in chosen and each.has_library)


def _explain_nan(point: Point, output: str) -> str:
    try:
        refuse_nan(point.program, point.params, point.exact, point.seed or 0)
    except RunError as error:
        return str(error).splitlines()[0]
    return f"{output} has no number there"


def _error_line(error: Exception) -> str:
    """An error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _join_words(names: Sequence[str]) -> str:
    return " and ".join(names)


# Try the edges of a parallel program: simulated ranks against one device.


ALONE: Final = "ranks cannot share one position"


def try_rank_edges(
    project: Project, programs: Prepared, seed: int, backends: Sequence[str], *, kernels: bool
) -> RankEdges:
    """Run each backend's code of ranks and of one device at ties, at zeros and on short axes."""
    trial = _RankTrial(tuple(backends), kernels)
    base = _point(programs, "", seed)
    trial.hold(programs, base.tied, DRAWS)
    trial.hold(programs, lambda _: base.zeros())
    for edge, case in _short(project, programs):
        reason = ALONE if case is None else refusal(case.one.graphs)
        if case is None or reason:
            trial.left_out[edge] = reason or ALONE
        else:
            trial.hold(case, partial(_point, case, edge, seed))
    return RankEdges((*trial.tried,), trial.left_out, trial.first)


@dataclass(slots=True)
class _RankTrial:
    """The edges of a parallel program as they are tried, up to the first that differs."""

    backends: tuple[str, ...]
    kernels: bool
    tried: dict[str, None] = field(default_factory=dict[str, None])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    first: str | None = None

    def hold(self, programs: Prepared, at: Callable[[int], Point], draws: int = 1) -> None:
        """Compare ranks with one device at draws of one edge, until they differ.

        Each microbatch of a pipeline has a draw of its own.
        """
        stages = bool(programs.many.stages)
        count = len(_pipeline_of(programs, 0).parts) if stages else 1
        for draw in range(draws):
            first, *others = map(at, range(draw, draw + count))
            points = [
                first,
                *(replace(each, params=first.params) for each in others),
            ]
            if any(p.undefined_output is not None or p.undefined_gradients for p in points):
                if first.edge not in self.tried:
                    self.left_out[first.edge] = "a result or a gradient is not finite there"
                continue
            self.tried[first.edge] = None
            self.left_out.pop(first.edge, None)
            for name in self.backends if self.first is None else ():
                found = self._difference(programs, points, name, draw)
                undecided = tuple(point.undecided for point in points) if found else ()
                if any(undecided):
                    found = self._difference(programs, points, name, draw, undecided)
                    tensors = sorted({tensor for each in undecided for tensor in each})
                    self.left_out |= {f"{tensor} at {first.edge}": BY_CHANCE for tensor in tensors}
                if found is not None:
                    self.first = f"{first.edge}, {name}: {found}"

    def _difference(
        self,
        programs: Prepared,
        points: Sequence[Point],
        backend: str,
        draw: int,
        undecided: tuple[Arrays, ...] = (),
    ) -> str | None:
        """The first array that is wrong on ranks, in an element that last bits don't decide."""
        one = programs.one.on_arrays(backend, kernels=self.kernels)
        try:
            if programs.many.stages:
                pipeline = _pipeline_of(programs, draw)
                drawn = zip(points, pipeline.parts, strict=True)
                parts = [Part(dict(p.inputs), dict(p.cotangents), old.seed) for p, old in drawn]
                params = points[0].params
                pipeline = replace(pipeline, params=params, parts=tuple(parts), undecided=undecided)
                stages = [
                    each.on_arrays(backend, kernels=self.kernels) for each in programs.many.stages
                ]
                return pipeline.compare(
                    pipeline.on_one_device(one), pipeline.on_ranks(stages)
                ).first
            (point,) = points
            comparison = replace(
                comparison_of(programs.one, programs.many, point.draw),
                params=point.params,
                inputs=point.inputs,
                cotangents=point.cotangents,
                undecided=undecided[0] if undecided else {},
            )
            many = programs.many.on_arrays(backend, kernels=self.kernels)
            return comparison.compare(
                comparison.on_one_device(one), comparison.on_ranks(many)
            ).first
        except RankError as error:
            return str(error)


def _pipeline_of(programs: Prepared, draw: int) -> PipelineComparison:
    """A pipeline in one of the schedules, with the microbatches that it needs."""
    schedules = list(SCHEDULES)
    schedule = schedules[draw % len(schedules)]
    return PipelineComparison.of(programs.one, programs.many, draw, schedule)


def _point(programs: Prepared, edge: str, seed: int, number: int = 0) -> Point:
    """Numbers in general position, as the comparison draws them."""
    drawn = comparison_of(programs.one, programs.many, seed + number)
    params, inputs = dict(drawn.params), dict(drawn.inputs)
    return Point(edge, programs.one.graphs, params, inputs, seed, seed + number)


def _short(project: Project, programs: Prepared) -> Iterator[tuple[str, Prepared | None]]:
    """The programs with each free axis of length 1; None if ranks can't share it."""
    block, plan, settings = programs.case.block, programs.case.plan, programs.settings
    assert block is not None
    file = shape_project(project, block, settings).main.sizes.defaults
    for name in free_axes(programs.one.graphs, file):
        edge = f"length 1 of {name}"
        try:
            yield edge, prepared(project, block, plan, {**settings, name: 1})
        except (DiagnosticError, InputError):
            yield edge, None
