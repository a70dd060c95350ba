"""Figures: a figure as data in, DOT text or a picture out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.glyph import describe_lost
from xg.figures.draw.paint import node_boxes, paint, sheet, step_by_step
from xg.figures.draw.side_by_side import side_by_side
from xg.figures.formats import dot_text
from xg.figures.formats.pdf import Paper, pdf
from xg.figures.formats.svg import Shared, png, svg, svg_part
from xg.figures.formats.tex import tex
from xg.figures.layout import run_engine
from xg.figures.model.figure import LIGHT, THEMES, Figure, Theme, TooNarrow
from xg.figures.model.structure import first_column

if TYPE_CHECKING:
    from xg.figures.draw.glyph import Display
    from xg.figures.layout.engines import Engine
    from xg.figures.layout.placement import PlacedFigure
    from xg.figures.model.figure import Box

_REMEMBERED = 64  # drawings: the figures of a file's blocks, which its page shows too
Format = Literal["svg", "pdf", "png", "tex"]
ThemeName = Literal["light", "dark", "print", "auto"]


def dot(figure: Figure, theme: ThemeName = "light") -> str:
    """Return a figure as styled DOT text; "auto" is light."""
    return dot_text.dot(figure, _colors(theme))


@dataclass(frozen=True, slots=True)
class Pictures:
    """A figure drawn in some formats; `engine` placed it, `warning` is empty if all went well."""

    files: Mapping[Format, bytes]
    engine: str
    warning: str


def render(figure: Figure, format: Format = "svg", theme: ThemeName = "light") -> bytes:
    """Draw a figure. "auto" is light, and dark in an SVG whose reader prefers dark pages."""
    return pictures(figure, (format,), theme).files[format]


def pictures(
    figure: Figure,
    formats: Iterable[Format],
    theme: ThemeName = "light",
    paper: Paper | None = None,
) -> Pictures:
    """Draw a figure in several formats at once: it is placed only once. PDF may be on paper."""
    _colors(theme)  # before the work
    wanted = tuple(formats)
    for each in wanted:
        _check_word("format", each, Format)
    display, placed = paint_figure(figure)
    files: dict[Format, bytes] = {each: written(display, each, theme, paper) for each in wanted}
    return Pictures(files, placed.engine, _warning(display, placed, wanted))


def _warning(display: Display, placed: PlacedFigure, formats: Sequence[Format]) -> str:
    """Return what went wrong: the engine's warning, and characters that no font has."""
    missing = [describe_lost(display, one) for one in formats if one in ("png", "pdf")]
    return "; ".join(dict.fromkeys(filter(None, (placed.warning, *missing))))


def series(
    figure: Figure, formats: Iterable[Format], theme: ThemeName = "light"
) -> tuple[Pictures, ...]:
    """Draw a figure step by step, in one layout: each picture has one operation more."""
    display, placed = paint_figure(figure)
    wanted = tuple(formats)
    return tuple(
        Pictures(
            {each: written(one, each, theme) for each in wanted},
            placed.engine,
            _warning(display, placed, wanted),
        )
        for one in step_by_step(figure if figure.columns else placed.figure, display)
    )


def paint_figure(figure: Figure) -> tuple[Display, PlacedFigure]:
    """Place a figure and paint it; of ranks side by side one column is placed.

    A figure that was drawn lately is not placed a second time, unless it was with a warning: the
    engine may have been short of time.
    """
    drawing = _drawn(figure, run_engine.ENGINES)
    if drawing[1].warning:
        _drawn.cache_clear()
    return drawing


@lru_cache(_REMEMBERED)
def _drawn(figure: Figure, engines: tuple[Engine, ...]) -> tuple[Display, PlacedFigure]:
    placed = run_engine.layout(first_column(figure), engines)
    return (side_by_side(figure, placed) if figure.columns else paint(placed)), placed


def first_that_fits(forms: Iterable[Figure]) -> Figure:
    """Return the first form of a figure that fits its page; raises TooNarrow if none does."""
    refusal: TooNarrow | None = None
    for figure in forms:
        try:
            paint_figure(figure)
        except TooNarrow as error:
            refusal = error
        else:
            return figure
    assert refusal is not None
    raise refusal


def on_a_sheet(whole: Figure, rows: Sequence[Sequence[Figure]], format: Format) -> bytes:
    """Draw rows of small figures on one page, with title and legend of the `whole`."""
    return written(sheet(whole, rows), format, "light")


@dataclass(frozen=True, slots=True)
class Parts:
    """Figures as `<svg>` elements for a page that has colors and fonts of its own.

    `shared` is an element that precedes them and has their common definitions: those that the first
    uses; `more` has those of the others. `nodes` maps the ids of each figure's nodes to their
    boxes.
    """

    markup: tuple[str, ...]
    nodes: tuple[Mapping[str, Box], ...]
    shared: str
    more: str
    engines: frozenset[str]
    warnings: tuple[str, ...]


def parts(figures: Iterable[Figure], names: Iterable[str] = ()) -> Parts:
    """Draw figures as parts of one page; what is inside of each gets its name as an id."""
    return joined(map(paint_figure, figures), names)


def joined(drawings: Iterable[tuple[Display, PlacedFigure]], names: Iterable[str] = ()) -> Parts:
    """Make parts of one page of figures that were painted already."""
    shared = Shared()
    displays, placed = zip(*drawings, strict=True)
    ids = dict(enumerate(names))
    first = svg_part(displays[0], shared, ids.get(0, ""))
    count = len(shared.texts)
    others = (svg_part(one, shared, ids.get(n, "")) for n, one in enumerate(displays) if n)
    return Parts(
        (first, *others),
        tuple(node_boxes(one) for one in displays),
        shared.svg(0, count),
        shared.svg(count),
        frozenset(one.engine for one in placed),
        tuple(dict.fromkeys(one.warning for one in placed if one.warning)),
    )


def written(
    display: Display, format: Format, theme: ThemeName, paper: Paper | None = None
) -> bytes:
    """Write what was painted in a format; PDF on sheets of paper, if there is some."""
    colors = _colors(theme)
    match format:
        case "svg":
            return svg(display, colors, follow=theme == "auto").encode("utf-8")
        case "png":
            return png(display, colors)
        case "pdf":
            return pdf(display, colors, paper)
        case "tex":
            return tex(display, colors).encode("utf-8")


def _colors(theme: ThemeName) -> Theme:
    """Return a theme's colors, the light ones for "auto"; raise ValueError for an unknown theme."""
    _check_word("theme", theme, ThemeName)
    return THEMES.get(theme, LIGHT)


def _check_word(kind: str, given: str, words: object) -> None:
    """Raise ValueError if an argument is not one of the words of its type."""
    *others, last = get_args(words)
    if given not in (*others, last):
        raise ValueError(f"a {kind} is {', '.join(others)} or {last}, not {given!r}")
