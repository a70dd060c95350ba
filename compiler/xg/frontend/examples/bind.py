"""From an example as it is written to typed data: names are values, shapes fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from xg.diagnostics.diagnostic import DiagnosticError, Problem
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.diagnostics.source import Span
from xg.frontend.blocks import concerning
from xg.frontend.examples.errors import GivenTwice, NoSuchBlock, NotTaken
from xg.frontend.examples.example_names import ClaimTarget, edges_of, target
from xg.frontend.examples.fit import Fit, Taken, allowed, taken
from xg.frontend.examples.numbers import Numbers, read
from xg.frontend.project import Project
from xg.frontend.typed import Settings, declared_dims, shape_project, type_project
from xg.ir.graph import Program
from xg.ir.sizes_from_arrays import sizes_from_arrays
from xg.ir.tensor import TensorType
from xg.passes.pipelines import DIFFERENTIATE
from xg.passes.resolve.errors import Refused
from xg.passes.runner import run
from xg.syntax import ast

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
    program: Program
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
        program, fit = self._sized(draft, givens)
        self.problems.extend(fit.givens(program, givens, self.example.block.span))
        self._stop()
        claims = [self._tried(lambda e: _claim(program, fit, e), e) for e in self.example.expects]
        self._stop()
        return BoundExample(
            title=self.example.title.value if self.example.title else "",
            program=program,
            sizes=fit.sizes,
            givens=givens,
            claims=tuple(claim for claim in claims if claim is not None),
            span=self.example.span,
        )

    def _sized(self, draft: Program, givens: Mapping[str, Numbers]) -> tuple[Program, Fit]:
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

    def _givens(self, program: Program) -> dict[str, Numbers]:
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
            numbers = self._tried(read, assignment.value)
            if numbers is not None:
                arrays.setdefault(name, numbers)
        return arrays

    def _tried(self, attempt: Callable[[Written], Read], written: Written) -> Read | None:
        try:
            return attempt(written)
        except Refused as refused:
            self.problems.extend(refused.problems)
            return None

    def _stop(self) -> None:
        if self.problems:
            raise DiagnosticError.of(*self.problems)


def _claim(program: Program, fit: Fit, expect: ast.Expect) -> Claim:
    """One claim; raises Refused."""
    about = target(program, expect.target)
    printed = read(expect.value)
    # Of integers any number can be claimed: it is false, not an error.
    type_ = TensorType(about.type.shape)
    zero = about.gradient and not any(printed.values)
    problems = tuple(fit.problems(Taken(about.name, type_, about.spelled), printed, zero=zero))
    if problems:
        raise Refused(*problems)
    return Claim(
        target=about,
        printed=printed,
        allowed=allowed(printed, expect.tolerance),
        place=expect.place.value if expect.place else "",
        wrong=expect.wrong.value if expect.wrong else None,
        span=expect.span,
    )


def documents(
    project: Project, block: str | None = None, settings: Settings | None = None
) -> Iterator[BoundExample]:
    """Every example of a file, or of one block, in order; raises DiagnosticError as `bind` does."""
    for example in project.main.examples:
        if block in (None, example.block.name):
            own = concerning(project, example.block.name, settings or {}, asked=block)
            yield bind(project, example, own)
