"""A figure inside somebody's document: of a snippet or a file, with options written as words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xg.cli.arguments import parse_settings
from xg.cli.outputs import Wanted, picture_of
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import View
from xg.frontend.project import Project, parse_project, read_project
from xg.frontend.typed import Settings

VIEWS: Final = ("forward", "backward", "overview")
THEMES: Final = ("auto", "light", "dark", "print")


def _one_of(*words: str) -> Callable[[str], str]:
    def chosen(text: str) -> str:
        if text not in words:
            raise ValueError(f"{text!r} is none of {', '.join(words)}")
        return text

    return chosen


def _check_name(text: str) -> str:
    if not text:
        raise ValueError("it needs a name")
    return text


def flag(text: str) -> bool:
    """An option without a value."""
    if text:
        raise ValueError("it has no value")
    return True


# The options by name, and how the text of each is read; a ValueError says how it is wrong.
OPTIONS: Final[Mapping[str, Callable[[str], object]]] = {
    "pass": _one_of(*VIEWS),
    "block": _check_name,
    "plan": _check_name,
    "set": parse_settings,
    "theme": _one_of(*THEMES),
    "title": flag,
    "legend": flag,
}


@dataclass(frozen=True, slots=True)
class Embedded:
    """A figure as a document asks for it."""

    project: Project
    view: View = "forward"
    block: str | None = None
    plan: str | None = None
    settings: Settings = field(default_factory=dict[str, "str | int"])
    theme: str = "auto"
    title: bool = False
    legend: bool = False

    @classmethod
    def of(cls, project: Project, options: Mapping[str, object]) -> Embedded:
        """A figure with options that `OPTIONS` has read."""
        names = {"pass": "view", "set": "settings"}
        given = {names.get(name, name): value for name, value in options.items()}
        return cls(project, **given)  # pyright: ignore[reportArgumentType] # OPTIONS has read them

    def draw(self, *formats: str) -> dict[str, bytes]:
        """The figure in some formats; raises DiagnosticError."""
        drawn: dict[str, bytes] = {}
        for each in formats:
            wanted = Wanted(
                (each,),
                self.theme,  # pyright: ignore[reportArgumentType] # one of THEMES
                legend=self.legend,
                title=self.title,
                block=self.block,
                plan=self.plan,
                settings=self.settings,
            )
            ((_, drawn[each]),) = picture_of(self.project, wanted, self.view).files.items()
        return drawn

    @property
    def words(self) -> str:
        """The figure in words, for those who do not see it."""
        blocks = self.project.main.blocks
        name = self.block or (blocks[-1].name.name if blocks else "")
        under = f" under plan {self.plan}" if self.plan else ""
        return f"{self.view} figure of {name}{under}"


def project_of(text: str, place: str) -> Project:
    """The project of a snippet at a place; raises DiagnosticError."""
    return parse_project(text.encode("utf-8", "surrogateescape"), place)


def project_at(file: str) -> Project:
    """The project of a file or of a shipped diagram; raises DiagnosticError."""
    return read_project(file)
