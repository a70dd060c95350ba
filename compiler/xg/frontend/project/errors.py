"""Errors in the files of a program (XG06xx)."""

from __future__ import annotations

from typing import Final

from xg.diagnostics.diagnostic import Diagnostic, Label, Problem, ProblemAt
from xg.diagnostics.wording import SLIP, similar

A_TEXT: Final = "this is a text, and no path"


class Unreadable(Problem):
    """A file that the user names and that cannot be read."""

    code = "XG0601"
    title = "cannot read {name}: {reason}"
    name: str
    reason: str
    beside: tuple[str, ...] = ()  # the programs in its folder, if it is missing
    library: tuple[str, ...] = ()  # the names of shipped diagrams, if it is missing

    def helps(self) -> tuple[str, ...]:
        if self.reason == A_TEXT:
            return ("a text is compiled by xg.compile(source=…)",)
        folder, slash, file = self.name.rpartition("/")
        stem = file.removesuffix(".xg")
        if stem not in self.library and (other := similar(stem, self.beside, SLIP)):
            return (f"did you mean {folder}{slash}{other}.xg?",)
        same_start = [name for name in self.library if name[:1] == stem[:1].lower()]
        if other := similar(stem, same_start, SLIP):  # the first letter is seldom the slip
            return (f"did you mean the shipped diagram {other}? its name alone opens it: {other}",)
        return ()


class UseUnreadable(ProblemAt):
    """A `use` of a file that is missing, is not an ordinary file, or may not be read."""

    code = "XG0602"
    title = "cannot read {span.text}"
    label = "{reason}"
    fix = "paths are relative to the file that contains them"
    reason: str


class UseOutside(ProblemAt):
    """A `use` that leads out of the project."""

    code = "XG0603"
    title = "{span.text} lies outside the project"
    notes = "a project is the folder that holds .git or pyproject.toml, else the file's"
    fix = "use relative paths inside the project, or the shipped library by bare name"


class UseCycle(ProblemAt):
    """Files that take from each other in a ring."""

    code = "XG0604"
    ring: tuple[str, ...]

    def diagnostic(self) -> Diagnostic:
        return self.report(
            f"files use each other in a ring: {' → '.join(self.ring)}",
            Label(self.span, "this closes it"),
            help=("put what both need into a third file",),
        )


class NotInLibrary(ProblemAt):
    """A bare name that is no file of the shipped library."""

    code = "XG0605"
    title = "the library has no {name}.xg"
    fix = (
        'put the name of your own file in quotes: "{name}.xg"',
        "the library has {known!j}",
    )
    name: str
    known: tuple[str, ...]
