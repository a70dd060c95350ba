"""A text with a mark at the place that is asked about."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xg.diagnostics.diagnostic import Source
from xg.frontend.choices import typed_blocks
from xg.frontend.project import Project, read_for_editor
from xg.frontend.typed import TypedBlocks
from xg_editor.declared import Declaration, ProjectNames
from xg_editor.explain import explain
from xg_editor.navigation import find, trail

MARK = "‸"


@cache
def known(text: str) -> tuple[Project, TypedBlocks]:
    """The project read from a text, and the graphs of its blocks."""
    reading = read_for_editor(Path("/none/f.xg"), Source("f.xg", text), {})
    assert reading.project is not None
    return reading.project, typed_blocks(reading.whole) if reading.whole else TypedBlocks()


def read(text: str) -> tuple[Project, TypedBlocks, int]:
    """The project and graphs of a text without its mark, and the offset of the mark."""
    return *known(text.replace(MARK, "")), text.index(MARK)


def hover(text: str) -> str:
    """The explanation of the marked place, a line for each paragraph."""
    found = explain(*read(text))
    if found is None:
        return ""
    return found.text.replace("```xg\n", "").replace("\n```", "").replace("\n\n", "\n")


def declared(text: str) -> Declaration | None:
    """The declaration of the name at the mark."""
    project, _, offset = read(text)
    return find(ProjectNames(project), trail(project.main, offset))


def line_of(text: str) -> int | None:
    """The line, counted from 1, where the name at the mark is declared."""
    found = declared(text)
    return found.span.line if found and found.span else None
