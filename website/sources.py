"""Files of the repository that documents link to, as pages with a place for each function."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import (
    get_lexer_by_name,  # pyright: ignore[reportUnknownVariableType]
    get_lexer_for_filename,  # pyright: ignore[reportUnknownVariableType]
)
from pygments.util import ClassNotFound

DEFINED = re.compile(r"^(?:async )?(?:def|class) (\w+)")


def page(root: Path, path: str) -> str:
    """The Markdown of a listing."""
    file = root / path
    if file.is_dir():
        names = sorted(one.name for one in file.iterdir() if not one.name.startswith(("_", ".")))
        body = "\n".join(f"- `{name}`" for name in names)
    else:
        body = _listing(file.name, file.read_text(encoding="utf-8"))
    return f"# {escape(path)}\n\n{body}\n"


def _listing(name: str, text: str) -> str:
    try:  # .dot is written for Graphviz: its colors would be most of the site
        lexer = get_lexer_for_filename(name if not name.endswith(".dot") else "dot.txt", text)
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    shown = highlight(text, lexer, HtmlFormatter[str](linespans="line", wrapcode=True))
    for number, line in enumerate(text.splitlines(), 1):
        if defined := DEFINED.match(line):
            place = f'<span id="line-{number}">'
            shown = shown.replace(place, f'{place}<a id="{defined[1]}"></a>', 1)
    return f"<div>\n{shown.strip().replace(chr(10) * 2, chr(10) + '&#8203;' + chr(10))}\n</div>"
