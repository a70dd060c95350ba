"""Hold the content of a page as data, and write it as one self-contained HTML document.

Text of users gets in through `xg.diagnostics.escape` alone. The policy lets nothing run or load but
the one style sheet, the script that unpacks the page's own, this one and the one that computes
numbers, by their hashes.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import chain, starmap
from string import Template
from typing import Final, Literal
from zlib import compress

from xg.diagnostics import escape
from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import DARK, LIGHT

# The content of a page, as data: pictures and code as they are, facts for the script.
#
# Every step of a block has one id, in its figure, its code, its costs and its numbers: `0.f3` is
# the fourth step of the forward pass of the first block, `0.b3` one of its backward pass.


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


SCRIPTS: Final = (
    *("exact", "page", "choice", "mathml", "detail", "costs", "sending", "ranks", "player"),
    *("view", "address", "start"),
)
COMPUTING: Final = ("primitives", "numbers")  # scripts of a page that computes numbers
# HTML quotes words and numbers for XML only.
_QUOTED: Final = re.compile(r' (class|href|x|y|font-size|stroke-width)="([#\w.-]+)"(?=[ >])')
NAMES: Final[Mapping[Pass, str]] = {"forward": "Forward", "backward": "Backward"}


def document(page: Page) -> str:
    """The whole document."""
    style = f"{color_variables('screen and ')}\n{page.sheet}\n{_tight(_lean(asset('page.css')))}"
    script = exploring()
    begin = Template(_lean(asset("begin.js"))).substitute(script=pack_text(script))
    first, *others = _figures(page)
    listings = chain(*starmap(_listing, enumerate(page.sections)))
    facts = {
        **page.facts,
        "markup": pack_text("\n".join((*map(_bare, (page.more, *others)), *listings))),
    }
    scripts = [begin, script]
    if "tape" in facts:
        scripts.append(computing())
        facts = {**facts, "script": pack_text(scripts[-1])}
    title = escape.xml(page.title)
    return Template(asset("page.html")).substitute(
        title=title,
        file=escape.xml(page.file),
        policy=_policy(style, scripts),
        style=style,
        script=begin,
        blocks=_blocks(page),
        figures=_bare(f"{page.shared}\n{first}"),
        facts=escape.script_data(facts),
    )


def exploring() -> str:
    """Return the page's script: a function of its facts, an unpacker and a script adder."""
    inside = "\n".join(_lean(asset(f"{name}.js")) for name in SCRIPTS)
    return f"globalThis.explorerOf=async(facts,unpacked,add)=>{{{inside}\n}}"


def computing() -> str:
    """The script that computes numbers: a function of a tape and of the page's own functions."""
    inside = "\n".join(_lean(asset(f"{name}.js")) for name in COMPUTING)
    own = "const{make,rich,facts}=page;"
    return f"globalThis.numbersOf=(tape,page)=>{{{own}\n{inside}\n}}"


def _bare(markup: str) -> str:
    """Figures without the quotes that a page can do without."""
    return _QUOTED.sub(r" \1=\2", markup)


def pack_text(text: str) -> str:
    """Compress a text of a page: zlib's format in base64."""
    return b64encode(compress(text.encode("utf-8"), 9)).decode("ascii")


def packed_data(data: object) -> str:
    """Data of a page's script, compressed as texts are."""
    return pack_text(json.dumps(data, separators=(",", ":")))


def _policy(style: str, scripts: Sequence[str]) -> str:
    """Write a policy that loads nothing and allows one style sheet and these scripts."""
    rules = (
        "default-src 'none'",
        f"style-src {digest(style)}",
        f"script-src {' '.join(map(digest, scripts))}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def digest(text: str) -> str:
    """A script or a style sheet as a policy allows it: by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def asset(name: str, package: str = "xg_pages") -> str:
    """The text of a file of a page."""
    return files(package).joinpath("assets", name).read_text(encoding="utf-8")


def _lean(text: str) -> str:
    """A script or style sheet without indentation and lines of comment."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(("//", "/*")))


def _tight(sheet: str) -> str:
    """A style sheet without the blanks that only its author needs."""
    for sign in ("{", "}", ";", ":", ","):
        sheet = sheet.replace(f"{sign} ", sign)
    return sheet.replace(" {", "{").replace(";}", "}")


def color_variables(medium: str = "") -> str:
    """The figures' colors as variables, dark ones on one medium; pages make theirs of them."""
    light, dark = (
        "".join(f"--xg-{name}:{value};" for name, value in theme.colors.items())
        for theme in (LIGHT, DARK)
    )
    return f":root{{{light}}}\n@media {medium}(prefers-color-scheme:dark){{:root{{{dark}}}}}"


# ---- what is written before the script runs -----------------------------------------------------


def _blocks(page: Page) -> str:
    """The buttons that choose a block; none where there is nothing to choose."""
    if len(page.sections) == 1:
        return ""
    buttons = (
        f'<button type="button" data-block="{place}">{escape.xml(section.title)}</button>'
        for place, section in enumerate(page.sections)
    )
    return f'<nav aria-label="Blocks">{"".join(buttons)}</nav>'


def _figures(page: Page) -> list[str]:
    """Every figure once: blocks that look the same share one. The first is the forward one."""
    owners: dict[str, list[str]] = {}
    for place, section in enumerate(page.sections):
        for view, face in section.faces.items():
            owners.setdefault(face.figure, []).append(f"{place}.{view}")
    if page.overview:
        owners.setdefault(page.overview, []).append("0.overview")
    first = "0.forward"
    return [
        f'<div class="figure" data-shows="{" ".join(names)}"{"" if first in names else " hidden"}>'
        f"{figure}</div>"
        for figure, names in owners.items()
    ]


def _listing(place: int, section: Section) -> list[str]:
    hidden = " hidden" if place else ""
    return [
        f'<div class="listing" data-of="{place}.{view}"{hidden}><h3>{NAMES[view]}</h3>'
        f'<pre role="group" aria-label="{NAMES[view]} pass of {escape.xml(section.title)}'
        f' in NumPy">{"".join(map(_line, face.code))}</pre></div>'
        for view, face in section.faces.items()
    ]


def _line(line: CodeLine) -> str:
    code, sign, comment = line.text.partition("# ")
    text = escape.xml(code) + (f"<i>{sign}{escape.xml(comment)}</i>" if sign else "")
    text = text.replace("&quot;", '"')  # a quotation mark means nothing outside of a tag
    if not line.steps:
        return f"{text}\n"
    return f'<span data-steps="{" ".join(line.steps)}">{text}\n</span>'
