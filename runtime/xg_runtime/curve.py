"""The loss curve as an SVG: raw and smoothed training loss, validation, reference lines.

    draw(records, {"unigram entropy": 3.1}) -> str

Records are those of the log. The picture follows the reader's light or dark scheme, needs no
script or font file, and its bytes depend on the records only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from xg_runtime.log import Record
from xg_runtime.scale import label, ticks

Point: TypeAlias = tuple[float, float]

_WIDTH: Final = 720
_HEIGHT: Final = 400
_LEFT: Final = 52
_RIGHT: Final = _WIDTH - 20
_TOP: Final = 52
_BOTTOM: Final = _HEIGHT - 44
_SMOOTHED_OVER: Final = 1 / 20  # of the run

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
class _Frame:
    """The ranges of both axes, and where their points lie on the page."""

    steps: tuple[float, float]
    losses: tuple[float, float]

    def x(self, step: float) -> float:
        low, high = self.steps
        return _LEFT + (step - low) / (high - low) * (_RIGHT - _LEFT)

    def y(self, loss: float) -> float:
        low, high = self.losses
        return _BOTTOM - (loss - low) / (high - low) * (_BOTTOM - _TOP)


def draw(records: Sequence[Record], references: Mapping[str, float]) -> str:
    """Return the picture of a log; one without steps says so."""
    raw = [(record["step"], record["loss"]) for record in records if "loss" in record]
    validation = [
        (record["step"], record["validation"]) for record in records if "validation" in record
    ]
    smooth = _smoothed(raw)
    frame = _frame(smooth + validation, references.values())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            f'width="{_WIDTH}" height="{_HEIGHT}" role="img">',
            f"<title>{_title(raw, smooth)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            f'<clipPath id="plot"><rect x="{_LEFT}" y="{_TOP}" width="{_RIGHT - _LEFT}" '
            f'height="{_BOTTOM - _TOP}"/></clipPath>',
            f'<rect class="ground" width="{_WIDTH}" height="{_HEIGHT}"/>',
            f'<text class="title" x="{_LEFT}" y="24">{_title(raw, smooth)}</text>',
            *_axes(frame),
            *(_reference(frame, name, level) for name, level in references.items()),
            *_line(frame, "raw", _thinned(raw)),
            *_line(frame, "smooth", _thinned(smooth)),
            *_line(frame, "validation", validation),
            *_dots(frame, validation),
            *_legend(bool(validation)),
            "</svg>\n",
        ]
    )


def _title(raw: Sequence[Point], smooth: Sequence[Point]) -> str:
    if not raw:
        return "no steps yet"
    return f"loss {raw[0][1]:.3f} → {smooth[-1][1]:.3f} after {int(raw[-1][0])} steps"


def _smoothed(points: Sequence[Point]) -> list[Point]:
    """Return the mean of each point's neighbours on both sides, so that the line does not lag."""
    half = int(len(points) * _SMOOTHED_OVER / 2)
    sums = [0.0, *accumulate(map(_loss, points))]
    smooth: list[Point] = []
    for place, (step, _) in enumerate(points):
        first, stop = max(place - half, 0), min(place + half + 1, len(points))
        smooth.append((step, (sums[stop] - sums[first]) / (stop - first)))
    return smooth


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Return at most two points a pixel: the lowest and the highest, so that no spike is lost."""
    chunk = -(-len(points) // (_RIGHT - _LEFT))
    if chunk <= 2:
        return list(points)
    chunks = (points[first : first + chunk] for first in range(0, len(points), chunk))
    ends = ((min(part, key=_loss), max(part, key=_loss)) for part in chunks)
    return [point for pair in ends for point in sorted(pair)]


def _loss(point: Point) -> float:
    return point[1]


def _frame(points: Sequence[Point], levels: Iterable[float]) -> _Frame:
    """Return ranges that hold every point and level, a little more at both ends of the losses."""
    steps = [step for step, _ in points] or [0.0, 1.0]
    losses = [*map(_loss, points), *levels] or [0.0, 1.0]
    margin = 0.06 * (max(losses) - min(losses)) or 0.5
    return _Frame(
        (min(0.0, *steps), max(1.0, *steps)), (min(losses) - margin, max(losses) + margin)
    )


def _axes(frame: _Frame) -> list[str]:
    """Return grid lines with their numbers, both axes and their names."""
    parts: list[str] = []
    for level in ticks(*frame.losses):
        y = frame.y(level)
        parts += [
            f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}"/>',
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label(level)}</text>',
        ]
    for step in ticks(*frame.steps, about=7):
        x = frame.x(step)
        parts += [
            f'<line class="axis" x1="{x:.1f}" y1="{_BOTTOM}" x2="{x:.1f}" y2="{_BOTTOM + 5}"/>',
            f'<text x="{x:.1f}" y="{_BOTTOM + 20}" text-anchor="middle">{label(step)}</text>',
        ]
    return [
        *parts,
        f'<line class="axis" x1="{_LEFT}" y1="{_BOTTOM}" x2="{_RIGHT}" y2="{_BOTTOM}"/>',
        f'<text x="{(_LEFT + _RIGHT) / 2:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">step</text>',
        f'<text x="{_LEFT - 8}" y="{_TOP - 12}" text-anchor="end">loss</text>',
    ]


def _reference(frame: _Frame, name: str, level: float) -> str:
    y = frame.y(level)
    return (
        f'<line class="reference" x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}"/>\n'
        f'<text x="{_RIGHT}" y="{y - 6:.1f}" text-anchor="end">{escape(name)} {level:.3f}</text>'
    )


def _line(frame: _Frame, kind: str, points: Sequence[Point]) -> list[str]:
    if len(points) < 2:
        return []
    path = " ".join(f"{frame.x(step):.1f},{frame.y(loss):.1f}" for step, loss in points)
    return [f'<polyline class="{kind}" clip-path="url(#plot)" points="{path}"/>']


def _dots(frame: _Frame, points: Sequence[Point]) -> list[str]:
    return [
        f'<circle class="dot" cx="{frame.x(step):.1f}" cy="{frame.y(loss):.1f}" r="3"/>'
        for step, loss in points
    ]


def _legend(validation: bool) -> list[str]:
    """Return what the lines are, in the upper right corner."""
    entries = [("raw", "each step"), ("smooth", "smoothed")]
    if validation:
        entries.append(("validation", "validation"))
    parts: list[str] = []
    for place, (kind, name) in enumerate(entries):
        x = _RIGHT - 96 * (len(entries) - place)
        parts += [
            f'<line class="{kind}" x1="{x}" y1="20" x2="{x + 20}" y2="20"/>',
            f'<text x="{x + 26}" y="24">{name}</text>',
        ]
    return parts
