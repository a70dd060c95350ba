"""Find fonts of this machine for the characters that the bundled font lacks.

PNG and PDF are drawn with the bundled font, so they are the same everywhere. If a text has
other characters, such as Chinese or emoji, they come from a font of the machine. SVG and TikZ need
none: their readers have fonts of their own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from struct import error, unpack_from
from typing import Final, Literal
from unicodedata import category

from xg.diagnostics import escape
from xg.figures.draw.font import Face, advance_widths, characters, face, table_places
from xg.figures.draw.glyph import Display, DrawnText

_FOLDERS: Final = {
    "darwin": ("/System/Library/Fonts", "/Library/Fonts", "~/Library/Fonts"),
    "win32": ("C:/Windows/Fonts", "~/AppData/Local/Microsoft/Windows/Fonts"),
}
_USUAL_FOLDERS: Final = (
    *("/usr/share/fonts", "/usr/local/share/fonts"),
    *("~/.fonts", "~/.local/share/fonts"),
)
_ENDINGS: Final = (".ttf", ".ttc", ".otf", ".otc")
_SECONDS: Final = 10  # for fontconfig, which may build its cache
_RESTRICTED: Final = 2  # of the table OS/2: a font that must not be embedded
_COLLECTION: Final = b"ttcf"
REPLACEMENT: Final = "?"  # for a character that no font has
_NAMED: Final = 8  # characters in a warning


def missing_characters(display: Display) -> str:
    """Return the characters of a picture that the bundled font lacks, each once, in their order."""
    known = face().glyphs
    texts = (
        escape.clean(span.text)
        for element in display.elements
        for part in element.parts
        if isinstance(part, DrawnText)
        for span in part.line.spans
    )
    found = dict.fromkeys(one for text in texts for one in text if ord(one) not in known)
    # A separator, or a sign that joins others, has no outline.
    return "".join(one for one in found if category(one) not in ("Zs", "Zl", "Zp", "Cf", "Cc"))


@lru_cache(maxsize=64)  # the figures of a file have much the same characters
def find_faces(text: str, *, embeds: bool = False) -> tuple[Face, ...]:
    """Return the fewest faces of this machine that have a text's characters, or most of them.

    With `embeds`, a PDF may contain the fonts: they have TrueType outlines and allow embedding.
    """
    wanted = {ord(one) for one in text}
    faces: list[Face] = []
    for path in font_files() if wanted else ():
        for one in _faces_of(path, wanted, embeds=embeds):
            faces.append(one)
            wanted -= one.glyphs.keys()
        if not wanted:
            break
    return tuple(faces)


@cache
def font_files() -> tuple[Path, ...]:
    """Return the font files of this machine: upright fonts without serifs first."""
    found = sorted({path for path in _listed_files() if path.suffix.lower() in _ENDINGS})
    return tuple(sorted(found, key=_rank))


def _rank(path: Path) -> tuple[bool, bool]:
    name = path.stem.lower()
    is_odd = any(word in name for word in ("bold", "italic", "oblique", "mono", "light", "cond"))
    return is_odd, "sans" not in name


def _listed_files() -> Iterator[Path]:
    """Yield the files that fontconfig knows, or without it the files in the system's folders."""
    command = shutil.which("fc-list")
    if command is not None:
        try:
            listed = subprocess.run(
                (command, "--format", "%{file}\\n"),
                capture_output=True,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            pass
        else:
            yield from map(Path, listed.stdout.decode(errors="replace").splitlines())
            return
    for folder in _FOLDERS.get(sys.platform, _USUAL_FOLDERS):
        try:
            yield from Path(folder).expanduser().rglob("*")
        except (OSError, RuntimeError):  # a folder that may not be read, a user without a home
            continue


def _faces_of(path: Path, wanted: Iterable[int], *, embeds: bool) -> Iterator[Face]:
    """Yield the first face of a file that has wanted characters; a broken file has none."""
    try:
        data = path.read_bytes()
        start = unpack_from(">L", data, 12)[0] if data.startswith(_COLLECTION) else 0
        tables = table_places(data, start)
        glyphs = characters(data, tables, set(wanted))
        if not glyphs or (embeds and not _is_embeddable(data, tables)):
            return
        widths = advance_widths(data, tables)
        if max(glyphs.values()) >= len(widths):
            return
    except (OSError, error, KeyError, StopIteration, ValueError, ZeroDivisionError):
        return
    name = re.sub(r"[^A-Za-z0-9-]", "", path.stem)
    yield Face(name, path, data, tables, glyphs, widths)


def _is_embeddable(data: bytes, tables: dict[str, tuple[int, int]]) -> bool:
    if "glyf" not in tables or "loca" not in tables:
        return False
    if "OS/2" not in tables:
        return True
    return unpack_from(">H", data, tables["OS/2"][0] + 8)[0] & 0xF != _RESTRICTED


def lost_characters(display: Display, *, embeds: bool = False) -> str:
    """Return the characters of a picture that no font has: `REPLACEMENT` is drawn for them."""
    text = missing_characters(display)
    found = {code for one in find_faces(text, embeds=embeds) for code in one.glyphs}
    return "".join(one for one in text if ord(one) not in found)


def describe_lost(display: Display, format: Literal["png", "pdf"]) -> str:
    """Return a warning that names the characters that no font has, empty if there are none."""
    lost = lost_characters(display, embeds=format == "pdf")
    if not lost:
        return ""
    names = ", ".join(f"{one} (U+{ord(one):04X})" for one in lost[:_NAMED])
    more = f" and {len(lost) - _NAMED} others" if len(lost) > _NAMED else ""
    kind = "TrueType font" if format == "pdf" else "font"
    return (
        f"the {format.upper()} shows {REPLACEMENT} for {names}{more}, because no {kind} on this"
        f" machine has {'it' if len(lost) == 1 else 'them'}: install one that does, or write SVG"
    )
