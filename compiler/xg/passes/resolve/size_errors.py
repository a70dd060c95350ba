"""Errors in sizes and numbers, before any shape is known (XG02xx)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from xg.diagnostics.diagnostic import Diagnostic, Fix, Label, Problem, ProblemAt, Span
from xg.diagnostics.terminal import similar
from xg.passes.resolve.errors_of_names import spelling_fixes
from xg.syntax.format import declaration
from xg.syntax.spelling import ascii_name

_NUMBERS: Final = {
    "inf": "numbers are finite: use -1e30 instead, which hides a score as well",
    "pi": "write the number, 3.141592653589793",
}
_KINDS: Final = {  # as other languages call what a range says
    **dict.fromkeys(("bool", "boolean"), "a mask has integers below 2: write `in 2`"),
    **dict.fromkeys(
        ("int", "int32", "int64", "long", "integer"),
        "integers need an upper bound: write `in V`, with dim V",
    ),
    **dict.fromkeys(
        ("float", "float32", "float64", "double"),
        "tensors without a range are floats: leave `in {}` out",
    ),
}


def _as_written(name: str, span: Span) -> str:
    """A name with the letters of the author, who may have written β or beta."""
    return span.text if ascii_name(span.text) == name else name


class UnknownSize(ProblemAt):
    """A symbol that no `dim` declares, with the others of its block."""

    code = "XG0203"
    name: str
    known: tuple[str, ...]
    other: Literal["value", "number", "nothing"] = "nothing"  # that is called so
    beside: tuple[tuple[str, Span], ...] = ()
    instead: str = ""  # what to write in the place of a value
    gathered: str = ""  # how positions are taken, if it was to be some

    @property
    def is_new(self) -> bool:
        """Whether a declaration is all that is missing: no known name is like it."""
        known = {*_NUMBERS, *_KINDS}
        told = self.other != "nothing" or self.name in known or bool(self.instead)
        return not told and similar(self.name, self.known) is None

    @property
    def names(self) -> tuple[str, ...]:
        """All that are unknown."""
        return self.name, *(name for name, _ in self.beside)

    def diagnostic(self) -> Diagnostic:
        spans = (self.span, *(span for _, span in self.beside))
        *most, last = map(_as_written, self.names, spans)
        told = f"no dims are called {', '.join(most)} and {last}" if most else ""
        others = (Label(span, primary=False) for _, span in self.beside)
        told = told or f"no dim is called {last}"
        return self.report(told, Label(self.span), *others, help=self.helps())

    def helps(self) -> tuple[str, ...]:
        name, line = self.name, f"dim {', '.join(self.names)}"
        if self.other == "value":
            return (
                self.instead or f"{name} is a value: pass it to a node by an arrow, `<-{name}`",
            )
        if self.other == "number":
            dim = f"`dim {name}` instead, and set it in the call: `F({name}=2)`"
            return (f"{name} is a number, not a size: declare {dim}",)
        if self.instead:
            return (self.instead,)
        if name in _NUMBERS and not self.beside:
            return (_NUMBERS[name],)
        if name in _KINDS and not self.beside:
            return (_KINDS[name].format(name),)
        if self.beside:
            return (f"declare them in a line above the block: {line}",)
        close = similar(name, self.known)
        slip = f"did you mean {close}? if not, " if close else ""
        taken = f"to take positions by index, write {self.gathered}"
        return (f"{slip}declare it: {line}", *((taken,) if self.gathered else ()))

    def fixes(self) -> tuple[Fix, ...]:
        if self.other != "nothing" or self.name in {*_NUMBERS, *_KINDS} or self.instead:
            return ()
        close = spelling_fixes(self.span, self.name, self.known)
        return (*close, declaration(self.span, "dim", *self.names))


def told_once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems of a block: each unknown size once, and as one problem all to be declared."""
    told: list[Problem] = []
    known: set[str] = set()
    first: UnknownSize | None = None
    beside: list[tuple[str, Span]] = []
    for problem in problems:
        if not isinstance(problem, UnknownSize):
            told.append(problem)
        elif problem.name not in known:
            known.add(problem.name)
            if problem.is_new and first:
                beside.append((problem.name, problem.span))
            else:
                told.append(problem)
                first = problem if problem.is_new else first
    if first and beside:
        together = UnknownSize(first.span, first.name, first.known, beside=tuple(beside))
        told[told.index(first)] = together
    return tuple(told)


class CircularSizes(Problem):
    """Dims that are defined in terms of each other."""

    code = "XG0218"
    ring: tuple[tuple[str, Span], ...]  # every size on the way, with its declaration

    def diagnostic(self) -> Diagnostic:
        (name, first), *rest = self.ring
        needs = [other for other, _ in (*rest, self.ring[0])]
        labels = [Label(first, f"needs {needs[0]}")]
        for (_, span), other in zip(rest, needs[1:], strict=True):
            labels.append(Label(span, f"needs {other}", primary=False))
        return self.report(
            f"the size of {name} depends on itself",
            *labels,
            help=("give one of them a number",) if rest else (f"give {name} a number",),
        )


class BadNumber(ProblemAt):
    """A number of an unknown form, or without a finite value."""

    code = "XG0224"
    title = "{message}"
    fix = "a number can use dims, numbers, + - * / ^, sqrt(…), exp(…) and log(…)"
    message: str


class BadSize(ProblemAt):
    """A size that is not an exact expression of dims."""

    code = "XG0219"
    title = "{message}"
    message: str
    instead: str = ""

    def helps(self) -> tuple[str, ...]:
        return (self.instead or "a size can use dims, numbers and + - * / ^",)
