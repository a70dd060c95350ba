"""The documents of the repository as pages: links lead to pages of the site, pictures follow it."""

from __future__ import annotations

import json
import posixpath
import re
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.source import Source
from xg.syntax.format import format

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"<picture>\s*<source [^>]*srcset=\"([^\"]+)\">\s*(<img [^>]*>)\s*</picture>")
SOURCE = re.compile(r'src="([^"]+)"')
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
UNTOLD = re.compile(r"^(<!-- (?:file|part of): [^\n]*\.xg -->\n```)\n", re.MULTILINE)
PROGRAM = re.compile(r"^```xg\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FOLDERS = (".", "docs", "docs/adr", "grammar")


@dataclass(frozen=True)
class Staged:
    """A document as a page, the files that it links to, and the pictures that it shows."""

    path: str
    text: str
    linked: frozenset[str]
    pictures: frozenset[str]


def documents(root: Path) -> list[str]:
    """Every document, as a path from the root."""
    found = (file for folder in FOLDERS for file in (root / folder).glob("*.md"))
    return sorted(file.relative_to(root).as_posix() for file in found)


def page_of(path: str, pages: frozenset[str]) -> str | None:
    """The page of a file of the repository; None: it has none but its listing.

    >>> page_of("diagrams/notation/mha.xg", frozenset()), page_of("LICENSE", frozenset())
    ('gallery/mha', None)
    """
    if path == "README.md":
        return "index"
    if path == "website/playground/page/index.html":
        return "playground/index"
    if path in pages:
        return path.removesuffix(".md")
    if path.startswith("diagrams/") and path.endswith(".xg"):
        return f"gallery/{posixpath.basename(path).removesuffix('.xg')}"
    return None


def staged(path: str, text: str, pages: frozenset[str], figures: Mapping[str, str]) -> Staged:
    """A document with its links led to pages; `figures` says on which page each is shown."""
    linked: set[str] = set()
    home = "" if path == "README.md" else posixpath.dirname(path)

    def led(found: re.Match[str]) -> str:
        words, target, fragment = found[1], found[2], found[3] or ""
        goal = posixpath.normpath(posixpath.join(home, target))
        page = page_of(goal, pages)
        if goal in figures:
            page, fragment = figures[goal].split("#")[0], "#" + figures[goal].split("#")[1]
        if page is None:
            linked.add(goal)
            page = f"source/{goal}"
        return f'<a href="{posixpath.relpath(page, home or ".")}.html{fragment}">{words}</a>'

    text = _outside_code(text, lambda part: LINK.sub(led, part))
    text = PICTURE.sub(_two_pictures, UNTOLD.sub(r"\1xg\n", text))
    playground = posixpath.relpath("playground/index.html", home or ".")
    text = PROGRAM.sub(lambda found: found[0] + _opened(found[1], playground), text)
    shown = {
        posixpath.normpath(posixpath.join(home, name))
        for name in (*SOURCE.findall(text), *IMAGE.findall(text))
    }
    shown = {name for name in shown if not name.startswith("http")}
    return Staged(
        "index.md" if path == "README.md" else path, text, frozenset(linked), frozenset(shown)
    )


def _opened(program: str, playground: str) -> str:
    """A link that opens a program in the playground; none for a piece of one."""
    try:
        format(Source("", program))
    except DiagnosticError:
        return ""
    if not re.search(r"^block ", program, re.MULTILINE):
        return ""
    what = json.dumps({"name": "diagram", "text": program, "view": "forward"}, ensure_ascii=False)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)  # as the page packs its own links
    letters = urlsafe_b64encode(packer.compress(what.encode()) + packer.flush()).decode()
    return f'\n\n<a href="{playground}#{letters.rstrip("=")}">Open in the playground</a>\n'


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """A text changed everywhere but in code, words of links among it."""
    kept: list[str] = []

    def hide(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    changed = change(CODE.sub(hide, text))
    return re.sub(r"\0(\d+)\0", lambda found: kept[int(found[1])], changed)


def _two_pictures(found: re.Match[str]) -> str:
    """A picture for light and one for dark pages, as the theme tells them apart."""
    light = found[2].replace("<img ", '<img class="only-light" ')
    dark = SOURCE.sub(f'src="{found[1]}"', found[2].replace("<img ", '<img class="only-dark" '))
    return f"{light}{dark}"
