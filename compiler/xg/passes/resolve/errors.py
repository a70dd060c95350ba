"""Errors in names and places, before any shape is known (XG02xx)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span


class Refused(Exception):
    """Carries a problem out of the statement that has it, so that the next one is still read."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems)
        self.problems = problems


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """A help line with the most similar known name, or none."""
    from difflib import get_close_matches  # only a wrong name pays for it

    lowered = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    found = [lowered[other] for other in close]
    return (f"did you mean {found[0]}?",) if found else ()


@problem_kind
class UnknownValue(Problem):
    """A value that nothing above makes."""

    code: ClassVar[str] = "XG0201"
    span: Span
    name: str
    known: tuple[str, ...]
    operator: bool = False

    def diagnostic(self) -> Diagnostic:
        help = nearest(self.name, self.known)
        if self.operator:
            help = (f"{self.name} is an operator: write it behind an arrow, -> {self.name}",)
        return self.report(
            f"no value is called {self.name}", Label(self.span, "not made above"), help=help
        )


@problem_kind
class UnknownOperator(Problem):
    """A node that is neither operator nor block nor option."""

    code: ClassVar[str] = "XG0202"
    span: Span
    name: str
    known: tuple[str, ...]
    value: bool = False

    def diagnostic(self) -> Diagnostic:
        help = nearest(self.name, self.known)
        if self.value:
            help = (
                f"{self.name} is a value: `: {self.name}` names an edge, `<-{self.name}` uses it",
            )
        return self.report(
            f"no operator, block or option is called {self.name}", Label(self.span), help=help
        )


@problem_kind
class UnknownSize(Problem):
    """A symbol that no `dim` declares."""

    code: ClassVar[str] = "XG0203"
    span: Span
    name: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        help = nearest(self.name, self.known) or (f"declare it: dim {self.name}",)
        return self.report(f"no dim is called {self.name}", Label(self.span), help=help)


@problem_kind
class NameTwice(Problem):
    """A name made a second time."""

    code: ClassVar[str] = "XG0204"
    span: Span
    name: str
    first: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.name} is made twice",
            Label(self.span, "again here"),
            Label(self.first, "first here", primary=False),
            help=("every name is made once; choose another",),
        )


@problem_kind
class NoLabel(Problem):
    """A chain whose result has no name, so that nothing can use it."""

    code: ClassVar[str] = "XG0205"
    span: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            "the result of this chain has no name",
            Label(self.span, "leaves here"),
            help=("name the edge: `: NAME`",),
        )


@problem_kind
class OutputMissing(Problem):
    """An output that no chain makes."""

    code: ClassVar[str] = "XG0206"
    span: Span
    name: str

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"nothing makes the output {self.name}",
            Label(self.span, "promised here"),
            help=(f"end a chain with `: {self.name}`",),
        )


@problem_kind
class WrongOperands(Problem):
    """Too many or too few operands."""

    code: ClassVar[str] = "XG0207"
    span: Span
    node: str
    takes: str
    found: int
    declared: Span | None = None
    help: tuple[str, ...] = ()

    def diagnostic(self) -> Diagnostic:
        arrive = "arrives" if self.found == 1 else "arrive"
        declared = [Label(self.declared, "declared here", primary=False)] if self.declared else []
        message = f"{self.node} takes {self.takes}, but {self.found} {arrive}"
        return self.report(message, Label(self.span), *declared, help=self.help)


@problem_kind
class DoubleArrow(Problem):
    """A double arrow into something else than •, or a • without one."""

    code: ClassVar[str] = "XG0208"
    span: Span
    node: str

    def diagnostic(self) -> Diagnostic:
        if self.node == "•":
            return self.report(
                "• needs exactly one operand by a single arrow and one by a double arrow",
                Label(self.span),
                help=("H -> •<=W multiplies H by W",),
            )
        return self.report(
            f"the double arrow brings the second operand of •, not one of {self.node}",
            Label(self.span),
            help=(f"write {self.node}<-…",),
        )


@problem_kind
class BadArgument(Problem):
    """Something in parentheses that the node does not take."""

    code: ClassVar[str] = "XG0209"
    span: Span
    message: str
    help: tuple[str, ...] = ()
    made: Span | None = None

    def diagnostic(self) -> Diagnostic:
        made = [Label(self.made, "made here", primary=False)] if self.made else []
        return self.report(self.message, Label(self.span), *made, help=self.help)


Wrong = Literal["axes", "map", "list", "size", "again"]


@problem_kind
class BadBrackets(Problem):
    """Brackets behind a node, or something in them, that it does not read."""

    code: ClassVar[str] = "XG0223"
    span: Span
    node: str
    wrong: Wrong
    takes: str

    def diagnostic(self) -> Diagnostic:
        node, written = self.node, self.span.text
        example = {"axes": f": {node}[S]", "map": f": {node}[b, s, d -> b, d, s]"}.get(
            self.takes, ""
        )
        message = {
            "axes": f"{node} takes no list of axes in brackets",
            "map": f"{node} takes no map of axes in brackets",
            "list": f"{node} takes a list of single axes, not {written}",
            "size": f"{node} finds the axis by its name: {written} says a size that is not read",
            "again": f"{written} says the size of an axis that stands left of the arrow, too",
        }[self.wrong]
        help = {
            "axes": (f"it takes a map of axes{example}",) if example else (),
            "map": (f"it takes names of axes{example}",) if example else (),
            "size": ("a size stands behind a new axis alone",),
            "again": ("a size stands behind a new axis alone",),
        }.get(self.wrong, ())
        return self.report(message, Label(self.span), help=help)


@problem_kind
class UnnamedTwice(Problem):
    """Two calls of one block that have no names to distinguish them."""

    code: ClassVar[str] = "XG0210"
    span: Span
    name: str
    first: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"two calls are named {self.name}",
            Label(self.span, "second call"),
            Label(self.first, "first call", primary=False),
            help=(
                f"give each its own name: {self.name} as first_{self.name.lower()}",
                "to share the parameters, name the first call and call that name again",
            ),
        )


@problem_kind
class UnusedParam(Problem):
    """A parameter that no choice of options uses."""

    code: ClassVar[str] = "XG0212"
    span: Span
    name: str

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"the parameter {self.name} is used by no chain", Label(self.span, "declared here")
        )


@problem_kind
class UnknownWord(Problem):
    """A word that an option does not have."""

    code: ClassVar[str] = "XG0213"
    span: Span | None
    option: str
    word: str
    words: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        labels = (Label(self.span),) if self.span else ()
        return self.report(
            f"{self.option} cannot be {self.word}",
            *labels,
            help=(f"{self.option} may be {' or '.join(self.words)}",),
        )


@problem_kind
class UnknownOption(Problem):
    """A guard on, or a setting of, an option that does not exist."""

    code: ClassVar[str] = "XG0214"
    span: Span | None
    name: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        labels = (Label(self.span),) if self.span else ()
        help = nearest(self.name, self.known)
        return self.report(f"no option or dim is called {self.name}", *labels, help=help)


@problem_kind
class NotYet(Problem):
    """A construct of the language that this edition reads but does not compile."""

    code: ClassVar[str] = "XG0215"
    span: Span | None
    what: str
    help: tuple[str, ...] = ()

    def diagnostic(self) -> Diagnostic:
        labels = (Label(self.span),) if self.span else ()
        return self.report(
            f"{self.what} cannot be compiled by this edition", *labels, help=self.help
        )


@problem_kind
class NotInFile(Problem):
    """A `use` of something that the file does not have."""

    code: ClassVar[str] = "XG0216"
    span: Span
    name: str
    origin: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        help = nearest(self.name, self.known) or (f"it has {', '.join(self.known)}",)
        return self.report(
            f"{self.origin} has no block or op {self.name}", Label(self.span), help=help
        )


@problem_kind
class CircularSizes(Problem):
    """Dims that are defined by each other."""

    code: ClassVar[str] = "XG0218"
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


@problem_kind
class BadNumber(Problem):
    """A number that is none: of no form that numbers have, or without a finite value."""

    code: ClassVar[str] = "XG0224"
    span: Span
    message: str

    def diagnostic(self) -> Diagnostic:
        help = "numbers are made of dims, numbers, + - * / ^, sqrt(…), exp(…) and log(…)"
        return self.report(self.message, Label(self.span), help=(help,))


@problem_kind
class BadSize(Problem):
    """A size that is no exact expression of dims."""

    code: ClassVar[str] = "XG0219"
    span: Span
    message: str

    def diagnostic(self) -> Diagnostic:
        return self.report(
            self.message, Label(self.span), help=("sizes are made of dims, numbers and + - * / ^",)
        )
