"""What can be wrong with the files of a program (XG06xx)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, problem_kind
from xg.diagnostics.source import Span


@problem_kind
class Unreadable(Problem):
    """A file that the user names and that cannot be read."""

    code: ClassVar[str] = "XG0601"
    name: str
    reason: str
    library: tuple[str, ...] = ()  # the names of shipped diagrams, if it could be one of them

    def diagnostic(self) -> Diagnostic:
        close = get_close_matches(self.name.removesuffix(".xg"), self.library, n=1)
        help = tuple(f"did you mean the shipped diagram {name}?" for name in close)
        return self.report(f"cannot read {self.name}: {self.reason}", help=help)


@problem_kind
class UseUnreadable(Problem):
    """A `use` of a file that is missing, is not an ordinary file, or may not be read."""

    code: ClassVar[str] = "XG0602"
    span: Span
    reason: str

    def diagnostic(self) -> Diagnostic:
        help = ("paths are relative to the file that they stand in",)
        return self.report(
            f"cannot read {self.span.text}", Label(self.span, self.reason), help=help
        )


@problem_kind
class UseOutside(Problem):
    """A `use` that leads out of the project."""

    code: ClassVar[str] = "XG0603"
    span: Span

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"{self.span.text} lies outside the project",
            Label(self.span),
            notes=("a project is the folder that holds .git or pyproject.toml, else the file's",),
            help=("use relative paths inside the project, or the shipped library by bare name",),
        )


@problem_kind
class UseCycle(Problem):
    """Files that take from each other in a ring."""

    code: ClassVar[str] = "XG0604"
    span: Span
    ring: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"files use each other in a ring: {' → '.join(self.ring)}",
            Label(self.span, "this closes it"),
            help=("put what both need into a third file",),
        )


@problem_kind
class NotInLibrary(Problem):
    """A bare name that is no file of the shipped library."""

    code: ClassVar[str] = "XG0605"
    span: Span
    name: str
    known: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"the library has no {self.name}.xg",
            Label(self.span),
            help=(
                f'a file of your own stands in quotes: "{self.name}.xg"',
                f"the library has {', '.join(self.known)}",
            ),
        )
