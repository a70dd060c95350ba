"""Rich text set on a baseline: every span with its place, size and face, in points."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw import font
from xg.figures.model import style
from xg.figures.model.geometry import Box
from xg.figures.model.richtext import RichText, StyledRun, Tag, scripts

_SCRIPT_SIZE: Final = 0.72  # of the base's size
_NESTED_SIZE: Final = 0.82  # of a script's size, of a script below it
_SUB_DROP: Final = 0.22  # of the base's size, below the baseline
_SUP_RISE: Final = 0.42
_WORD: Final = re.compile(r"\s*\S+\s*")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Characters of one face at `x`, `y` relative to the line's start; y grows downwards."""

    text: str
    x: float
    y: float
    size: float
    bold: bool
    italic: bool
    muted: bool
    tag: Tag = ""

    @property
    def width(self) -> float:
        """Return the advance width in points."""
        return font.face(bold=self.bold, italic=self.italic).width(self.text) * self.size


@dataclass(frozen=True, slots=True)
class TextLine:
    """A set line: its spans, its width, how far it reaches above and below the baseline."""

    spans: tuple[TextSpan, ...]
    width: float
    ascent: float
    descent: float

    @property
    def height(self) -> float:
        """Return the distance from the highest to the lowest point of the line."""
        return self.ascent + self.descent

    def tags(self) -> Iterator[tuple[Tag, float, float]]:
        """Yield the tags of the line: of which pass, from where to where."""
        for is_tag, group in groupby(self.spans, lambda span: span.tag != ""):
            if is_tag:
                spans = list(group)
                yield spans[0].tag, spans[0].x, max(span.x + span.width for span in spans)


def line_bounds(line: TextLine, x: float, y: float) -> Box:
    """Return the box of a set line."""
    return Box(x, y - line.ascent, x + line.width, y + line.descent)


@lru_cache(maxsize=4096)  # a label is measured, placed, drawn: set several times
def typeset(text: RichText, size: float, muted_size: float | None = None) -> TextLine:
    """Set a label at `size`; muted runs, which are shapes, at `muted_size` if that is given."""
    spans: list[TextSpan] = []
    x = 0.0
    before: Tag = ""
    for run in text:
        base = muted_size if run.muted and muted_size is not None else size
        if run.tag != before:
            x += style.TAG_PADDING
        base, before = style.TAG_SIZE if run.tag else base, run.tag
        placed = _set_run(run, x, base)
        spans += placed
        x = max((span.x + span.width for span in placed), default=x)
    x += style.TAG_PADDING if before else 0.0
    return TextLine(tuple(spans), x, _ascent(spans, size), _descent(spans, size))


def _set_run(run: StyledRun, x: float, size: float) -> list[TextSpan]:
    base = TextSpan(run.text, x, 0.0, size, run.bold, run.italic, run.muted, run.tag)
    # A slanted letter leans over its subscript's corner less than over its superscript's.
    right = x + base.width
    script = size * _SCRIPT_SIZE
    spans = [base]
    if run.sub:
        spans += _set_below(run, right, size)
    if run.sup:
        lean = 0.06 * size if run.italic else 0.0
        rise = -size * _SUP_RISE
        right += lean
        spans.append(TextSpan(run.sup, right, rise, script, False, False, run.muted, run.tag))
    return spans


def _set_below(run: StyledRun, x: float, size: float) -> Iterator[TextSpan]:
    """Set a subscript, and the subscripts of its letters lower and smaller."""
    for text, is_nested in scripts(run.sub):
        script, drop = size * _SCRIPT_SIZE, size * _SUB_DROP
        if is_nested:
            script, drop = script * _NESTED_SIZE, drop + script * _SUB_DROP
        span = TextSpan(text, x, drop, script, False, False, run.muted, run.tag)
        yield span
        x += span.width


def _ascent(spans: Sequence[TextSpan], size: float) -> float:
    return max((font.CAP_HEIGHT * span.size - span.y for span in spans), default=0.7 * size)


def _descent(spans: Sequence[TextSpan], size: float) -> float:
    return max((font.DESCENT * span.size + span.y for span in spans), default=0.2 * size)


def wrapped(text: RichText, size: float, room: float) -> Iterator[RichText]:
    """Yield a text in lines no wider than a room, as far as its words allow."""
    if typeset(text, size).width <= room:
        yield text
        return
    words = [replace(run, text=word) for run in text for word in _WORD.findall(run.text)]
    line: RichText = ()
    for word in words:
        longer = (*line, word)
        if line and typeset(longer, size).width > room:
            yield line
            longer = (replace(word, text=word.text.lstrip()),)
        line = longer
    yield line
