"""The parts of a chart: a frame with two axes, and lines, dots and levels in it, as SVG.

The picture follows the reader's light or dark scheme, and needs no script or font file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from xml.sax.saxutils import escape

from xg_runtime.scale import label, ticks

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
