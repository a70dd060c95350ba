"""Problems in the links of a built site: nothing may be missing, nothing may be fetched."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LEADING = ("href", "src", "data", "poster", "srcset")
# Most tags of listings: they lead nowhere, and passing over them is faster than reading them.
PLAIN = re.compile(
    r'<(?:code|div|em|li|p|span|strong|td|tr)(?: class="[^"]*")?>'
    r"|</(?!script|style|textarea|title)\w+>"
)


@dataclass
class Links(HTMLParser):
    """The links of a page, the files that it needs to be shown, and the anchors that it has."""

    wanted: set[str] = field(default_factory=set[str])
    needed: set[str] = field(default_factory=set[str])
    places: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that lead somewhere."""
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in LEADING and value:
                (self.wanted if tag == "a" else self.needed).add(value)


def problems(site: Path) -> list[str]:
    """Links that lead nowhere, and what a page would fetch from elsewhere."""
    names = {file.relative_to(site).as_posix() for file in site.rglob("*") if file.is_file()}
    pages = {name: _read(site / name) for name in sorted(names) if name.endswith(".html")}
    return sorted(
        f"{name}: {problem}"
        for name, links in pages.items()
        for problem in _of_page(name, links, names, pages)
    )


def _read(path: Path) -> Links:
    links = Links()
    links.feed(PLAIN.sub("", path.read_text(encoding="utf-8")))
    return links


def _of_page(name: str, links: Links, names: set[str], pages: Mapping[str, Links]) -> Iterator[str]:
    for target in links.needed:
        if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
            yield f"fetches {target}"
    for target in links.wanted | links.needed:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        path = unquote(parts.path)
        goal = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        goal = f"{goal}/index.html" if path.endswith("/") else goal
        if goal not in names:
            yield f"leads to {target}, which is not there"
        elif goal == "playground/index.html":
            continue  # behind # is a program
        elif parts.fragment and goal in pages and unquote(parts.fragment) not in pages[goal].places:
            yield f"leads to {target}, a place that is not there"
