"""The curve of a run as an SVG: raw and smoothed training loss, validation, reference lines.

    draw(records, {"unigram entropy": 3.1}) -> str
    draw(records, {}, {"always the same": 0.5})      accuracy below, with lines of its own

Records are those of the log. The accuracy of validation is drawn where they have it. The bytes
depend on what is given only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from xg_runtime.log import Record

# Axes of a chart: where the ticks are and how numbers are written there.


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers in [low, high], near `about` of them, at steps of 1, 2 or 5 · 10ⁿ.

    >>> ticks(0, 300)
    [0.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0]
    >>> ticks(1.93, 4.61)
    [2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    """
    step = _round_step((high - low) / about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [_tidy(place * step) for place in range(first, last + 1)]


def label(number: float) -> str:
    """Return a tick's number: 0.5, 20, 1.5k, 2M, 1e-05.

    >>> [label(x) for x in (0.5, 20.0, 1500.0, 2e6, 0.00001)]
    ['0.5', '20', '1.5k', '2M', '1e-05']
    """
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(number) >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def _round_step(rough: float) -> float:
    """Return the largest of 1, 2, 5 · 10ⁿ up to about `rough`."""
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return max(size * magnitude for size in (1, 2, 5) if size * magnitude <= rough * 1.0001)


def _tidy(number: float) -> float:
    """Return the number without the last digits' noise: 0.30000000000000004 is 0.3."""
    return float(f"{number:.12g}")


# The parts of a chart: a frame with two axes, and lines, dots and levels in it, as SVG.
#
# The picture follows the reader's light or dark scheme, and needs no script or font file.


Point: TypeAlias = tuple[float, float]

WIDTH: Final = 720
LEFT: Final = 52
RIGHT: Final = WIDTH - 20

_STYLE: Final = """\
.ground { fill: #ffffff }
.grid { stroke: #e9ebee }
.axis { stroke: #9aa1a9 }
text { font: 12px system-ui, sans-serif; fill: #4d555e }
.title { font-size: 14px; font-weight: 600; fill: #1c2127 }
polyline, line { fill: none }
.raw { stroke: #2a5fc9; stroke-opacity: 0.25 }
.smooth { stroke: #2a5fc9; stroke-width: 2; stroke-linejoin: round }
.validation { stroke: #c96a12; stroke-width: 1.5 }
.dot { fill: #c96a12 }
.reference { stroke: #7a828b; stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) {
.ground { fill: #14181d }
.grid { stroke: #242a31 }
.axis { stroke: #5b6570 }
text { fill: #a4adb7 }
.title { fill: #e8ebee }
.raw { stroke: #7aa5ff; stroke-opacity: 0.3 }
.smooth { stroke: #7aa5ff }
.validation { stroke: #f0a860 }
.dot { fill: #f0a860 }
.reference { stroke: #8c96a1 }
}"""


@dataclass(frozen=True)
class Frame:
    """The ranges of both axes, their places on the page, and the frame's own name."""

    steps: tuple[float, float]
    levels: tuple[float, float]
    top: int
    bottom: int
    name: str

    def x(self, step: float) -> float:
        """Return the place of a step on the page."""
        low, high = self.steps
        return LEFT + (step - low) / (high - low) * (RIGHT - LEFT)

    def y(self, level: float) -> float:
        """Return the place of a level on the page."""
        low, high = self.levels
        return self.bottom - (level - low) / (high - low) * (self.bottom - self.top)


def page(height: int, title: str, parts: Iterable[str]) -> str:
    """Return a whole picture, with a title above the frames."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
            f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def axes(frame: Frame) -> list[str]:
    """Return grid lines with their numbers, both axes and their names, and the frame's clip."""
    parts = [
        f'<clipPath id="{frame.name}"><rect x="{LEFT}" y="{frame.top}" width="{RIGHT - LEFT}" '
        f'height="{frame.bottom - frame.top}"/></clipPath>'
    ]
    for level in ticks(*frame.levels):
        y = frame.y(level)
        parts += [
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>',
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label(level)}</text>',
        ]
    for step in ticks(*frame.steps, about=7):
        x, low = frame.x(step), frame.bottom
        parts += [
            f'<line class="axis" x1="{x:.1f}" y1="{low}" x2="{x:.1f}" y2="{low + 5}"/>',
            f'<text x="{x:.1f}" y="{low + 20}" text-anchor="middle">{label(step)}</text>',
        ]
    return [
        *parts,
        f'<line class="axis" x1="{LEFT}" y1="{frame.bottom}" x2="{RIGHT}" y2="{frame.bottom}"/>',
        f'<text x="{(LEFT + RIGHT) / 2:.1f}" y="{frame.bottom + 36}" text-anchor="middle">step'
        "</text>",
        f'<text x="8" y="{frame.top - 12}">{frame.name}</text>',
    ]


def reference(frame: Frame, name: str, level: float) -> str:
    """Return a level drawn across the frame, with its name and number."""
    y = frame.y(level)
    return (
        f'<line class="reference" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>\n'
        f'<text x="{RIGHT}" y="{y - 6:.1f}" text-anchor="end">{escape(name)} {level:.3f}</text>'
    )


def line(frame: Frame, kind: str, points: Sequence[Point]) -> list[str]:
    """Return a line through points; nothing where there are not two."""
    if len(points) < 2:
        return []
    path = " ".join(f"{frame.x(step):.1f},{frame.y(level):.1f}" for step, level in points)
    return [f'<polyline class="{kind}" clip-path="url(#{frame.name})" points="{path}"/>']


def dots(frame: Frame, points: Sequence[Point]) -> list[str]:
    """Return a dot at every point."""
    return [
        f'<circle class="dot" cx="{frame.x(step):.1f}" cy="{frame.y(level):.1f}" r="3"/>'
        for step, level in points
    ]


def legend(entries: Sequence[tuple[str, str]]) -> list[str]:
    """Return what lines of each kind are: on the right, below the title, which may be long."""
    parts: list[str] = []
    for place, (kind, name) in enumerate(entries):
        x = RIGHT - 96 * (len(entries) - place)
        parts += [
            f'<line class="{kind}" x1="{x}" y1="36" x2="{x + 20}" y2="36"/>',
            f'<text x="{x + 26}" y="40">{name}</text>',
        ]
    return parts


_HEIGHT: Final = 400
_TOP: Final = 52
_BOTTOM: Final = _HEIGHT - 44
_ACCURACY: Final = 220  # the height that accuracy adds
_SMOOTHED_OVER: Final = 1 / 20  # of the run


def draw(
    records: Sequence[Record],
    references: Mapping[str, float],
    chances: Mapping[str, float] | None = None,
) -> str:
    """Return the picture of a log; one without steps says so.

    `references` are losses, `chances` accuracies to compare with.
    """
    raw, validation, accuracy = (_points(records, of) for of in ("loss", "validation", "accuracy"))
    smooth = _moving_average(raw)
    frame = _frame(smooth + validation, references.values())
    entries = [("raw", "each step"), ("smooth", "smoothed")]
    title = _title(raw, smooth)
    if accuracy:
        title += f", accuracy {accuracy[-1][1]:.3f}"
    parts = [
        *axes(frame),
        *(reference(frame, name, level) for name, level in references.items()),
        *line(frame, "raw", _downsample(raw)),
        *line(frame, "smooth", _downsample(smooth)),
        *_validation(frame, validation),
        *legend(entries + [("validation", "validation")] * bool(validation)),
    ]
    if not accuracy:
        return page(_HEIGHT, title, parts)
    below = _below(frame, accuracy, chances or {})
    return page(_HEIGHT + _ACCURACY, title, [*parts, *below])


def _below(frame: Frame, accuracy: Sequence[Point], chances: Mapping[str, float]) -> list[str]:
    """Return the accuracy frame, drawn below the loss frame along the same steps."""
    low = min([0.5, *map(_level, accuracy), *chances.values()]) - 0.05
    top, bottom = _HEIGHT + 24, _HEIGHT + _ACCURACY - 44
    under = Frame(frame.steps, (max(low, 0.0), 1.0), top, bottom, "accuracy")
    drawn = (reference(under, name, level) for name, level in chances.items())
    return [*axes(under), *drawn, *_validation(under, accuracy)]


def _validation(frame: Frame, points: Sequence[Point]) -> list[str]:
    return [*line(frame, "validation", points), *dots(frame, points)]


def _points(records: Iterable[Record], of: str) -> list[Point]:
    return [(record["step"], record[of]) for record in records if of in record]


def _title(raw: Sequence[Point], smooth: Sequence[Point]) -> str:
    if not raw:
        return "no steps yet"
    return f"loss {raw[0][1]:.3f} → {smooth[-1][1]:.3f} after {int(raw[-1][0])} steps"


def _moving_average(points: Sequence[Point]) -> list[Point]:
    """Return the mean of each point's neighbors on both sides, so that the line does not lag."""
    half = int(len(points) * _SMOOTHED_OVER / 2)
    sums = [0.0, *accumulate(map(_level, points))]
    smooth: list[Point] = []
    for place, (step, _) in enumerate(points):
        first, stop = max(place - half, 0), min(place + half + 1, len(points))
        smooth.append((step, (sums[stop] - sums[first]) / (stop - first)))
    return smooth


def _downsample(points: Sequence[Point]) -> list[Point]:
    """Return at most two points a pixel: the lowest and the highest, so that no spike is lost."""
    chunk = -(-len(points) // (RIGHT - LEFT))
    if chunk <= 2:
        return list(points)
    chunks = (points[first : first + chunk] for first in range(0, len(points), chunk))
    ends = ((min(part, key=_level), max(part, key=_level)) for part in chunks)
    return [point for pair in ends for point in sorted(pair)]


def _level(point: Point) -> float:
    return point[1]


def _frame(points: Sequence[Point], levels: Iterable[float]) -> Frame:
    """Return ranges that hold every point and level, a little more at both ends of the losses."""
    steps = [step for step, _ in points] or [0.0, 1.0]
    losses = [*map(_level, points), *levels] or [0.0, 1.0]
    margin = 0.06 * (max(losses) - min(losses)) or 0.5
    ranges = (min(losses) - margin, max(losses) + margin)
    return Frame((min(0.0, *steps), max(1.0, *steps)), ranges, _TOP, _BOTTOM, "loss")
