"""The line of `xg doctor` about editors."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

from xg.packages import Finding
from xg_editor.commands.lsp import MISSING


def probe() -> Iterator[Finding]:
    """Whether `xg lsp` can serve an editor."""
    if find_spec("pygls") is None:
        fix = f"{MISSING}, for editors"
        yield Finding("pygls", "not needed", "not installed: no xg lsp", fix)
    else:
        yield Finding("pygls", "ok", f"{version('pygls')}: xg lsp serves editors")
