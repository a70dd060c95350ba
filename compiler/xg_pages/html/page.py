"""The content of a page, as data: pictures and code as they are, facts for the script.

Every step of a block has one id, in its figure, its code, its costs and its numbers: `0.f3` is the
fourth step of the forward pass of the first block, `0.b3` one of its backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from xg.diagnostics.lazy_dataclass import dataclass

Pass = Literal["forward", "backward"]

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code and the ids of the steps that it computes."""

    text: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassFace:
    """One pass of a block: its figure as `<svg>` markup, and its function."""

    figure: str
    code: tuple[CodeLine, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One block of the program; a block without gradients has no backward face."""

    title: str
    faces: Mapping[Pass, PassFace]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. `facts` are what the script reads: docs/explorer.md says what is in them.

    `overview` is the first block's third figure, "" where there is none: ranks side by side, or
    the blocks that it calls opened in place. `shared` is markup that the first figure refers
    to, `more` what others refer to, `sheet` their style sheet.
    """

    title: str
    file: str
    sections: tuple[Section, ...]
    facts: Json
    overview: str
    shared: str
    more: str
    sheet: str
