"""Executable documents: the numbers that an example prints, checked by computing them again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from xg.diagnostics.diagnostic import DiagnosticError, Problem, Span
from xg.diagnostics.lazy_dataclass import dataclass, field, replace
from xg.frontend.errors import (
    BadTolerance,
    ClaimOfGiven,
    GivenTwice,
    NoGradient,
    NoLastDigit,
    NoLoss,
    NoSuchBlock,
    NoSuchEdge,
    NotAnIndex,
    NotANumber,
    NotGiven,
    NothingClaimed,
    NotTaken,
    Ragged,
    RunsAgain,
    TwoMeanings,
    UnfitArray,
    UseUnreadable,
    WrongShape,
)
from xg.frontend.project import Project
from xg.frontend.typed import Settings, concerning, declared_dims, shape_project, type_project
from xg.ir.dim import Dim
from xg.ir.graph import Graph, IRProgram, Value
from xg.ir.size_checks import sizes_from_arrays
from xg.ir.tensor import TensorType
from xg.ir.walk import CallSite, entry, ignored, join, loss_of, param_specs, scalars
from xg.passes.pipelines import DIFFERENTIATE, run
from xg.passes.resolve.errors import Refused
from xg.passes.resolve.expressions import ExpressionReader
from xg.syntax import ast
from xg.syntax.spelling import ascii_name

if TYPE_CHECKING:
    from xg_runtime.module import Array


# Bind an example to a program: read its numbers, look up its names, check its shapes.


_CONSTANT: Final = ExpressionReader(frozenset(), frozenset(), {})
_DECIMAL: Final = re.compile(r"\d*\.?(?P<decimals>\d*)(?:[eE](?P<power>[+-]?\d+))?")


@dataclass(frozen=True, slots=True)
class Printed:
    """One number: as it is written, its value, and half a unit of its last digit.

    `half` is None for an expression (`1/3`), which has no last digit.
    """

    text: str
    value: float
    half: float | None
    span: Span


@dataclass(frozen=True, slots=True)
class Numbers:
    """An array of printed numbers, in row-major order; a scalar has the shape ()."""

    shape: tuple[int, ...]
    items: tuple[Printed, ...]
    span: Span

    @property
    def values(self) -> tuple[float, ...]:
        """The numbers alone."""
        return tuple(item.value for item in self.items)


def read(expr: ast.Expr) -> Numbers:
    """Numbers in brackets, or one number; raises Refused.

    Level by level: after the first item of a level is a number, all of them are.
    """
    level: list[ast.Expr] = [expr]
    shape: list[int] = []
    while isinstance(level[0], ast.Array):
        length = len(level[0].items)
        shape.append(length)
        level = [item for row in level for item in _row(row, length)]
    return Numbers(tuple(shape), tuple(map(number, level)), expr.span)


def _row(expr: ast.Expr, length: int) -> tuple[ast.Expr, ...]:
    """The items of one array, which has as many as the first beside it."""
    if not isinstance(expr, ast.Array):
        raise Refused(Ragged(expr.span, f"a row of {length}", "a number"))
    if len(expr.items) != length:
        raise Refused(Ragged(expr.span, f"a row of {length}", f"one of {len(expr.items)}"))
    if not length:
        raise Refused(Ragged(expr.span, "at least one", "no number"))
    return expr.items


def number(expr: ast.Expr) -> Printed:
    """One finite number; raises Refused."""
    if isinstance(expr, ast.Array):
        raise Refused(Ragged(expr.span, "a number", f"a row of {len(expr.items)}"))
    digits = expr.operand if isinstance(expr, ast.Negation) else expr
    half = last_digit(digits.digits) if isinstance(digits, ast.Number) else None
    return Printed(expr.span.text, _value(expr), half, expr.span)


def _value(expr: ast.Expr) -> float:
    try:
        value = _CONSTANT.scalar(expr).evaluate({})
    except (Refused, ArithmeticError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise Refused(NotANumber(expr.span))
    return value


def last_digit(digits: str) -> float:
    """Half a unit of the last digit that a number is written with.

    >>> last_digit("0.340"), last_digit("12"), last_digit("1.5e3")
    (0.0005, 0.5, 50.0)
    """
    parts = _DECIMAL.fullmatch(digits)
    assert parts, digits
    return float(f"5e{int(parts['power'] or 0) - len(parts['decimals']) - 1}")


# Arrays of a file.


NUMBERS_AT_MOST: Final = 100_000  # in one array: an example has numbers that a person can read
OF_LARGEST: Final = 1e-6  # what numbers of a file may be off by, relative to the largest


def stored_arrays(stored: ast.Stored, path: Path) -> Mapping[str, Numbers]:
    """Read the arrays of a file by their names; raises Refused."""
    from xg_runtime import arrays, errors  # with NumPy, which programs without examples don't need

    try:
        found = arrays.read(path)
    except errors.FileError as error:
        reason = str(error).partition(": ")[2]
        raise Refused(UseUnreadable(stored.file.span, reason)) from None
    arrays_read: dict[str, Numbers] = {}
    for name, array in found.items():
        known = ascii_name(name)
        if known in arrays_read:  # η and eta: one of them would be left out
            raise Refused(UseUnreadable(stored.file.span, f"it holds {known} twice"))
        arrays_read[known] = _stored(name, array, stored.file.span)
    return arrays_read


def _stored(name: str, array: Array, span: Span) -> Numbers:
    """One array of a file; raises Refused."""
    if array.dtype.kind not in "biuf":
        raise Refused(UnfitArray(span, name, f"has numbers of type {array.dtype}", NUMBERS_AT_MOST))
    if array.size > NUMBERS_AT_MOST:
        raise Refused(UnfitArray(span, name, f"has {array.size} numbers", NUMBERS_AT_MOST))
    values = [float(x) for x in array.ravel().tolist()]
    for place, value in enumerate(values):
        if not math.isfinite(value):
            raise Refused(UnfitArray(span, name, f"has {value} as number {place}", NUMBERS_AT_MOST))
    items = tuple(Printed(f"{value:.9g}", value, None, span) for value in values)
    return Numbers(array.shape, items, span)


# Printed arrays checked against the types of their tensors, once sizes have numbers.


@dataclass(frozen=True, slots=True)
class Taken:
    """Something that a block takes: `written` is its type as people read it.

    `optional` is a parameter that starts as ones or zeros; `ignored` the integer beyond its range
    that a loss leaves out.
    """

    name: str
    type: TensorType
    written: str
    optional: bool = False
    ignored: int | None = None


def taken(program: IRProgram) -> Iterator[Taken]:
    """The inputs and parameters of a program, in file order."""
    main = program.main
    for value in main.inputs:
        type_ = main.types[value]
        written = str(TensorType(main.shape(value), type_.range))
        yield Taken(str(value.name), type_, written, ignored=ignored(program, value))
    for path, param, graph, symbols in param_specs(program):
        type_ = graph.sizes.expand_type(param.type).substitute(symbols)
        yield Taken(path, type_, str(param.type), optional=isinstance(param.start, str))


@dataclass(frozen=True, slots=True)
class Fit:
    """The numbers of sizes, and which array brought each."""

    sizes: Mapping[str, int]
    brought: dict[str, Span] = field(default_factory=dict[str, Span])

    def givens(
        self, program: IRProgram, givens: Mapping[str, Numbers], missing: Span
    ) -> Iterator[Problem]:
        """The errors in the given arrays of an example; `missing` is where something is missing."""
        for each in taken(program):
            numbers = givens.get(each.name)
            if numbers is None and not each.optional:
                yield NotGiven(missing, each.name, each.written)
            elif numbers is not None:
                yield from self.problems(each, numbers)
                for dim in each.type.shape:
                    self.brought.setdefault(dim.name or "", numbers.span)

    def problems(self, of: Taken, found: Numbers, *, zero: bool = False) -> Iterator[Problem]:
        """The errors in a printed array, which is a gradient of `zero`."""
        axes = of.type.shape
        is_known = all(name in self.sizes for dim in axes for name in dim.symbols())
        expected_shape = tuple(dim.evaluate(self.sizes) for dim in axes) if is_known else None
        if len(found.shape) != len(axes) or expected_shape not in (None, found.shape):
            because = self._because(axes, found.shape)
            yield WrongShape(
                found.span,
                of.name,
                of.written,
                expected_shape,
                found.shape,
                because,
                zero=zero and not found.shape,
            )
        elif of.type.range is not None:
            below = of.type.range.evaluate(self.sizes)
            for item in found.items:
                inside = item.value == int(item.value) and 0 <= item.value < below
                if not inside and item.value != of.ignored:
                    yield NotAnIndex(item.span, of.name, below - 1)

    def _because(self, axes: tuple[Dim, ...], found: tuple[int, ...]) -> Span | None:
        """The array that brought the first size which is another one here."""
        if len(axes) == len(found):
            for dim, length in zip(axes, found, strict=True):
                if dim.name in self.brought and self.sizes[dim.name] != length:
                    return self.brought[dim.name]
        return None


def allowed_errors(printed: Numbers, tolerance: ast.Expr | None) -> tuple[float, ...]:
    """How far each number may be off: as is said, or half a unit of its last digit."""
    if tolerance is not None:
        if isinstance(tolerance, ast.Array) or number(tolerance).value <= 0:
            raise Refused(BadTolerance(tolerance.span))
        return (number(tolerance).value,) * len(printed.items)
    for item in printed.items:
        if item.half is None:
            raise Refused(NoLastDigit(item.span))
    return tuple(item.half for item in printed.items if item.half is not None)


# The names of an example: inputs and parameters, edges, gradients.


@dataclass(frozen=True, slots=True)
class ClaimTarget:
    """The subject of a claim: a value of the run of a call, or the gradient towards it.

    `type` is in the sizes of the entry, `spelled` is the shape as people read it. `path` is "" for
    the block itself. `primal` is the value itself, or for a gradient the one it belongs to.
    """

    name: str
    path: str
    primal: Value
    gradient: bool
    type: TensorType
    spelled: str

    @property
    def source(self) -> str:
        """The full name of the value itself: of dW_2 it is W_2."""
        return join(self.path, str(self.primal.name))


def edges_of(graph: Graph) -> dict[str, Value]:
    """Return the results of a graph's steps by name; an output also by its port's name."""
    results = (v for step in graph.steps for v in step.outputs if v.role == "edge")
    named = {value.name: value for value in results if value.name is not None}
    ports = zip(graph.output_names, graph.outputs, strict=True)
    taken = {*graph.inputs, *graph.param_values()}
    return named | {n: value for n, value in ports if value not in taken and n not in named}


def target(program: IRProgram, path: ast.Path) -> ClaimTarget:
    """The subject of a claim; raises Refused."""
    *calls, last = (segment.name for segment in path.segments)
    site = _site(program, tuple(calls), path)
    edges = edges_of(site.graph)
    taken = (*site.graph.inputs, *site.graph.param_values())
    values = {str(value.name): value for value in taken}
    primal = last.removeprefix("d") if last.startswith("d") else None
    of = edges.get(primal or "") or values.get(primal or "")
    if last in edges:
        if of is not None:
            raise Refused(TwoMeanings(path.span, last, last[1:], edges[last].span))
        return _target(site, path.name, edges[last], gradient=False)
    if last in values:
        raise Refused(ClaimOfGiven(path.span, path.name))
    if of is None:
        raise Refused(NoSuchEdge(path.span, path.name, program.main.block, tuple(edges)))
    return _gradient(program, _target(site, path.name, of, gradient=True), path.span)


def _target(site: CallSite, name: str, value: Value, *, gradient: bool) -> ClaimTarget:
    graph = site.graph
    type_ = graph.sizes.expand_type(graph.types[value]).substitute(site.symbols)
    spelled = str(TensorType(graph.shape(value)))
    return ClaimTarget(name, site.path, value, gradient, type_, spelled)


def _gradient(program: IRProgram, found: ClaimTarget, span: Span) -> ClaimTarget:
    """The target, if the loss has a gradient towards it; raises Refused."""
    main = program.main
    loss = loss_of(main)
    if loss is None:
        raise Refused(NoLoss(span, found.name, main.block, scalars(main)))
    graph = site_graph(program, found.path)
    if not found.type.is_float or found.primal not in program.backwards[graph.key].totals:
        raise Refused(NoGradient(span, found.name, found.source, loss))
    return found


def site_graph(program: IRProgram, path: str) -> Graph:
    """The graph that runs under a path, which is known to exist."""
    site = _walk(program, tuple(path.split(".")) if path else ())
    assert site is not None
    return site.graph


def _site(program: IRProgram, calls: tuple[str, ...], path: ast.Path) -> CallSite:
    """Where a path of calls leads; raises Refused."""
    site = _walk(program, calls)
    if site is None:
        names = tuple(call.path for call in program.main.named_calls())
        raise Refused(NoSuchEdge(path.span, path.name, program.main.block, names, "calls"))
    if again := _again(program, calls):
        raise Refused(RunsAgain(path.span, path.name, again))
    return site


def _walk(program: IRProgram, calls: tuple[str, ...]) -> CallSite | None:
    site, rest = entry(program), list(calls)
    numbers = program.main.sizes.bind(program.numbers)
    while rest:
        call = next((c for c in site.graph.named_calls() if c.path == rest[0]), None)
        if call is None:
            return None
        site, rest = site.enter(call, program.graphs), rest[1:]
        if call.count is not None:
            count = call.count.substitute(site.symbols).evaluate(numbers)
            if not rest or not rest[0].isdecimal() or int(rest[0]) >= count:
                return None
            site = replace(site, path=join(site.path, str(int(rest[0]))))
            rest = rest[1:]
    return site


def _again(program: IRProgram, calls: tuple[str, ...]) -> str:
    """The first call on the way that is made more than once, if any."""
    graph, way = program.main, ""
    for name in calls:
        same_path = [call for call in graph.calls if call.path == name]
        way = join(way, name)
        if len(same_path) > 1:
            return way
        if same_path:
            graph = program.graphs[same_path[0].callee]
    return ""


# From an example as it is written to typed data: names are values, shapes fit.


Written = TypeVar("Written")
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Claim:
    """One `expect`: what it is about, what is printed, how far each number may be off.

    `place` is where the document prints it; `wrong` is why it is known to be false.
    """

    target: ClaimTarget
    printed: Numbers
    allowed: tuple[float, ...]
    place: str
    wrong: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class BoundExample:
    """An example of a block at the sizes of its arrays.

    `program` is differentiated, and nothing of it is left out. `givens` has every input and
    parameter by its path; a parameter that starts as ones or zeros may be missing.
    """

    title: str
    program: IRProgram
    sizes: Mapping[str, int]
    givens: Mapping[str, Numbers]
    claims: tuple[Claim, ...]
    span: Span


def bind(project: Project, example: ast.Example, settings: Settings | None = None) -> BoundExample:
    """An example of a file, with settings that are all meant for its block.

    Raises DiagnosticError with all that is wrong with it.
    """
    own = (block.name.name for block in project.main.blocks)
    taken = (name.name for use in project.main.uses for name in use.names)
    blocks, name = (*own, *taken), example.block.name
    if name not in blocks:
        raise DiagnosticError.of(NoSuchBlock(example.block.span, name, blocks))
    return _Binder(project, example, settings or {}).document()


@dataclass(frozen=True, slots=True)
class _Binder:
    """One example on its way to data, with the problems that were found."""

    project: Project
    example: ast.Example
    settings: Settings
    problems: list[Problem] = field(default_factory=list[Problem])

    def document(self) -> BoundExample:
        """Read the numbers, size the block by them, then look every name up."""
        block = self.example.block.name
        draft = shape_project(self.project, block, self.settings)
        givens = self._givens(draft)
        self._stop()
        program, fit = self._type_at_sizes(draft, givens)
        self.problems.extend(fit.givens(program, givens, self.example.block.span))
        self._stop()
        claims = [
            self._try_read(lambda e: _claim(program, fit, e), e) for e in self.example.expects
        ]
        for stored in self.example.stored:
            if stored.claimed:
                claims += (
                    self._try_read(lambda s: self._stored_claims(program, fit, s), stored) or []
                )
        self._stop()
        return BoundExample(
            title=self.example.title.value if self.example.title else "",
            program=program,
            sizes=fit.sizes,
            givens=givens,
            claims=tuple(claim for claim in claims if claim is not None),
            span=self.example.span,
        )

    def _type_at_sizes(
        self, draft: IRProgram, givens: Mapping[str, Numbers]
    ) -> tuple[IRProgram, Fit]:
        """The block at the sizes of its arrays, with its backward pass."""
        shapes = {name: numbers.shape for name, numbers in givens.items()}
        declared = declared_dims(self.project)
        sizes = {
            name: n for name, n in sizes_from_arrays(draft, shapes).items() if name in declared
        }
        block = self.example.block.name
        typed = type_project(self.project, block, {**sizes, **self.settings})
        array_sizes = {
            n: size
            for n, size in sizes_from_arrays(typed, shapes).items()
            if n not in self.settings
        }
        bound = typed.main.sizes.bind({**typed.main.sizes.defaults, **array_sizes})
        return run((DIFFERENTIATE,), typed).result, Fit(bound)

    def _givens(self, program: IRProgram) -> dict[str, Numbers]:
        """The given arrays, by full name."""
        names = tuple(each.name for each in taken(program))
        edges = edges_of(program.main)
        places: dict[str, Span] = {}
        arrays: dict[str, Numbers] = {}
        for assignment in self.example.givens:
            name, span = assignment.target.name, assignment.target.span
            if name in places:
                self.problems.append(GivenTwice(span, name, places[name]))
            elif name not in names:
                block = program.main.block
                self.problems.append(NotTaken(span, name, block, names, name in edges))
            places.setdefault(name, span)
            numbers = self._try_read(read, assignment.value)
            if numbers is not None:
                arrays.setdefault(name, numbers)
        for stored in self.example.stored:
            if not stored.claimed:
                span, block = stored.file.span, program.main.block
                for name, numbers in (self._try_read(self._read_file, stored) or {}).items():
                    if name in arrays:
                        self.problems.append(GivenTwice(span, name, places[name]))
                    elif name in names:
                        arrays[name] = numbers
                        places[name] = span
                    elif stored.file.value not in self._claimed_files:
                        made = name in edges
                        self.problems.append(NotTaken(span, name, block, names, made))
        return arrays

    @property
    def _claimed_files(self) -> set[str]:
        return {each.file.value for each in self.example.stored if each.claimed}

    def _read_file(self, stored: ast.Stored) -> Mapping[str, Numbers]:
        return stored_arrays(stored, self.project.arrays[stored.file.value])

    def _stored_claims(
        self, program: IRProgram, fit: Fit, stored: ast.Stored
    ) -> list[Claim | None]:
        """The claims of a file: one for each array that the block doesn't take."""
        names = {each.name for each in taken(program)}
        claimed = {n: each for n, each in self._read_file(stored).items() if n not in names}
        if not claimed:
            raise Refused(NothingClaimed(stored.file.span, program.main.block))
        return [_stored_claim(program, fit, stored, *each) for each in claimed.items()]

    def _try_read(self, attempt: Callable[[Written], Read], written: Written) -> Read | None:
        try:
            return attempt(written)
        except Refused as refused:
            self.problems.extend(refused.problems)
            return None

    def _stop(self) -> None:
        if self.problems:
            raise DiagnosticError.of(*self.problems)


def _claim(program: IRProgram, fit: Fit, expect: ast.Expect) -> Claim:
    """One claim; raises Refused."""
    printed = read(expect.value)
    return Claim(
        target=_fitting_target(program, fit, expect.target, printed),
        printed=printed,
        allowed=allowed_errors(printed, expect.tolerance),
        place=expect.place.value if expect.place else "",
        wrong=expect.wrong.value if expect.wrong else None,
        span=expect.span,
    )


def _stored_claim(
    program: IRProgram, fit: Fit, stored: ast.Stored, name: str, printed: Numbers
) -> Claim:
    """The claim of one array of a file; raises Refused."""
    span = stored.file.span
    path = ast.Path(span, tuple(ast.Name(span, part) for part in name.split(".")))
    largest = max(map(abs, printed.values), default=0.0)
    allowed = (OF_LARGEST * largest,) * len(printed.items)
    return Claim(
        target=_fitting_target(program, fit, path, printed),
        printed=printed,
        allowed=allowed_errors(printed, stored.tolerance) if stored.tolerance else allowed,
        place=stored.place.value if stored.place else "",
        wrong=None,
        span=stored.span,
    )


def _fitting_target(program: IRProgram, fit: Fit, path: ast.Path, printed: Numbers) -> ClaimTarget:
    """Find the subject of a claim, which has the shape of the numbers; raises Refused."""
    about = target(program, path)
    # You may claim any number for an integer: out of its range it is false, not an error.
    type_ = TensorType(about.type.shape)
    zero = about.gradient and not any(printed.values)
    problems = tuple(fit.problems(Taken(about.name, type_, about.spelled), printed, zero=zero))
    if problems:
        raise Refused(*problems)
    return about


def documents(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> Iterator[BoundExample]:
    """Every example of a file, or of one block, in order; raises DiagnosticError as `bind` does."""
    for example in project.main.examples:
        if block in (None, example.block.name):
            own = concerning(project, example.block.name, settings or {}, asked=block)
            yield bind(project, example, own)
