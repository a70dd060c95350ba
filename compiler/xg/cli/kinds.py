"""The kinds of files that are written for a diagram."""

from __future__ import annotations

from typing import Final

from xg.codegen.backend import backends
from xg.packages import offers

Kind = str  # a form of figures, the page, or a backend
KINDS: Final[tuple[Kind, ...]] = (
    *("dot", "svg", "pdf", "png", "tex"),
    *(("html",) if offers("explore") else ()),
    *backends(),
)
