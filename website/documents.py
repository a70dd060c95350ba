"""The documents of the repository as pages: links lead to pages of the site, pictures follow it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

from website.opening import opening_link
from xg.diagnostics.diagnostic import DiagnosticError
from xg_pages.embedded import Embedded, project_of

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"<picture>\s*((?:<source [^>]*>\s*)+)(<img [^>]*>)\s*</picture>")
SOURCES = re.compile(r'<source media="([^"]*)" srcset="([^"]+)">')
SCHEME = re.compile(r"( and )?\(prefers-color-scheme: dark\)")
SOURCE = re.compile(r'src="([^"]+)"')
SRCSET = re.compile(r'srcset="([^"]+)"')
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
UNTOLD = re.compile(r"^(<!-- (?:file|part of): [^\n]*\.xg -->\n```)\n", re.MULTILINE)
PROGRAM = re.compile(r"^```xg\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALSO = re.compile(r"^(?:\*Also|Search words): ((?:.+\n)+)", re.MULTILINE)
FOLDERS = (".", "docs", "docs/adr", "docs/how-to", "grammar")


@dataclass(frozen=True)
class Staged:
    """A document as a page, the files that it links to, and the pictures that it shows.

    `drawn` are the figures of its programs, by their paths in the site.
    """

    path: str
    text: str
    linked: frozenset[str]
    pictures: frozenset[str]
    drawn: Mapping[str, bytes]


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
    drawn: dict[str, bytes] = {}

    def pictured(found: re.Match[str]) -> str:
        has_one = "<picture" in found.string or "(figures/tutorial_" in found.string
        figures = {} if has_one else _figures(found[1])
        drawn.update((name, picture) for name, (picture, _) in figures.items())
        shown = "".join(
            f'\n\n<div class="figure-of"><img src="{posixpath.relpath(name, home or ".")}"'
            f' alt="{escape(words)}" loading="lazy"></div>\n'
            for name, (_, words) in figures.items()
        )
        return (
            found[0]
            + shown
            + (opening_link("diagram", found[1], playground) if figures or has_one else "")
        )

    text = ALSO.sub(_indexed, PROGRAM.sub(pictured, text))
    shown = {
        posixpath.normpath(posixpath.join(home, name))
        for name in (*SOURCE.findall(text), *SRCSET.findall(text), *IMAGE.findall(text))
    }
    shown = {name for name in shown if not name.startswith("http")}
    shown -= drawn.keys()
    name = "index.md" if path == "README.md" else path
    return Staged(name, text, frozenset(linked), frozenset(shown), drawn)


def _indexed(found: re.Match[str]) -> str:
    """The line of other words, and the same words where the search looks first."""
    words = " ".join(found[1].split()).rstrip("*.").split(", ")
    entries = ", ".join(f"! {word}" for word in words if not set(word) & set(";!:"))
    return f"{found[0]}\n```{{index}} {entries}\n```\n"


def _figures(program: str) -> dict[str, tuple[bytes, str]]:
    """The forward figure of a program, and its ranks under its last plan, each with its words.

    None of a piece of a program, of one that is refused, and of one that uses another file.
    """
    if not re.search(r"^block ", program, re.MULTILINE):
        return {}
    figures: dict[str, tuple[bytes, str]] = {}
    try:
        project = project_of(program, "program")
        plans = project.main.plan_decls
        asked = [Embedded(project)]
        asked += [Embedded(project, "overview", plan=plans[-1].name.name)] if plans else []
        for each in asked:
            picture = each.draw("svg")["svg"]
            figures[f"programs/{sha256(picture).hexdigest()[:12]}.svg"] = picture, each.words
    except DiagnosticError:
        pass
    return figures


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
    sources = SOURCES.findall(found[1])
    dark = [(SCHEME.sub("", media), name) for media, name in sources if SCHEME.search(media)]
    light = [(media, name) for media, name in sources if not SCHEME.search(media)]
    shown: list[str] = []
    for theme, chosen in (("light", light), ("dark", dark)):
        own = "".join(f'<source media="{m}" srcset="{name}">' for m, name in chosen if m)
        image = found[2]
        for name in (name for media, name in chosen if not media):
            image = SOURCE.sub(f'src="{name}"', image)
        shown.append(f'<picture class="only-{theme}">{own}{image}</picture>')
    return "".join(shown)
