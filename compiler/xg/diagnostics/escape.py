"""Escape text for the languages of pictures and for file names.

Characters that XML does not allow, and those that would turn a line of text around, become U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069"
    "\ud800-\udfff\ufeff\ufffe\uffff]"
)
_XML: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
    | {"\t": " ", "\n": " ", "\r": " "}
)
# Graphviz 2.43 loses a bare `]` behind a tag.
_HTML: Final = _XML | {ord("["): "&#91;", ord("]"): "&#93;"}

_MARKDOWN: Final = re.compile(r"[\\`*_\[\]<>|~&$]|^[#+\-=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]")


def clean(text: str) -> str:
    """Return text with characters that are safe in a picture; line ends become spaces."""
    return _FORBIDDEN.sub("\ufffd", text).replace("\r", " ").replace("\n", " ").replace("\t", " ")


def xml(text: str) -> str:
    """Return text for the inside of an XML element or of a quoted attribute."""
    return clean(text).translate(_XML)


def dot_html(text: str) -> str:
    """Return text for the inside of one of Graphviz's HTML labels."""
    return clean(text).translate(_HTML)


def dot_string(text: str) -> str:
    r"""Return a quoted DOT string. No escape of Graphviz's (`\N`, `\G`, `\l`) survives in it.

    >>> print(dot_string('a"b\\N'))
    "a\"b\\N"
    """
    return '"' + clean(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def pdf_text(text: str) -> str:
    """Return a PDF text string as UTF-16 in hexadecimal, in which nothing needs escaping."""
    return "<FEFF" + clean(text).encode("utf-16-be").hex().upper() + ">"


def script_data(data: object) -> str:
    r"""Return data as JSON for the inside of a `<script>` element, which nothing in it can end.

    >>> print(script_data({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return clean(text).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def markdown(text: str) -> str:
    r"""Return text for a paragraph or a heading of Markdown, in which no sign means anything.

    >>> print(markdown("a_b *c* <d>"), markdown("12. # 2"), markdown("- x"))
    a\_b \*c\* \<d\> 12\. # 2 \- x
    """
    return _MARKDOWN.sub(lambda sign: f"\\{sign[0]}", clean(text).strip())


def code_span(text: str) -> str:
    """Return a code span of Markdown that holds text as it is.

    >>> print(code_span("x -> LN"), code_span("a `b`"))
    `x -> LN` `` a `b` ``
    """
    plain = clean(text)
    ticks = _ticks(plain, 1)
    return f"{ticks} {plain} {ticks}" if "`" in plain else f"{ticks}{plain}{ticks}"


def code_block(text: str) -> str:
    """Return a fenced block of Markdown that holds lines as they are."""
    lines = "\n".join(map(clean, text.split("\n")))
    ticks = _ticks(lines, 3)
    return f"{ticks}\n{lines}\n{ticks}"


def _ticks(text: str, least: int) -> str:
    """More backticks than any run of them in a text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


# File names made from names: lower case, ASCII, short, and never one that a system keeps.


LONGEST: Final = 60

# Names that some systems take for devices, with any ending.
_KEPT: Final = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)


def slug(name: str) -> str:
    """`Multi-Head Attention` gives `multi_head_attention`; it begins with a letter.

    >>> slug("01 MHA"), slug("é"), slug("CON")
    ('d01_mha', 'diagram', 'con_')
    """
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "diagram"
    if text[0].isdigit():
        text = f"d{text}"
    if len(text) > LONGEST:
        from hashlib import sha256  # few names are that long

        text = f"{text[: LONGEST - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
    return f"{text}_" if text in _KEPT else text


def stems(file: str, blocks: Iterable[str]) -> dict[str, str]:
    """A stem for the files of each block of a file, all different.

    >>> stems("mha", ["MHA", "Head", "head"])
    {'MHA': 'mha', 'Head': 'mha_head', 'head': 'mha_head_2'}
    """
    stem_of: dict[str, str] = {}
    for block in blocks:
        stem = file if slug(block) == file else slug(f"{file}_{block}")
        taken = set(stem_of.values())
        number = 2
        unique = stem
        while unique in taken:
            unique = f"{stem}_{number}"
            number += 1
        stem_of[block] = unique
    return stem_of
