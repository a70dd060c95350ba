"""Seed 003's picture of principal components: points along a line, and where they spread.

The points are drawn here; directions and variances are those of `examples.sentiment.components`.
"""

from __future__ import annotations

import numpy as np
from examples.sentiment.components import Components, covariance, principal

from xg_runtime.module import Array

SIZE, UNIT = 320, 52  # of the picture, and of 1, in pixels
STYLE = """\
.ground { fill: #ffffff }
.axis { stroke: #9aa1a9 }
.point { fill: #2a5fc9; fill-opacity: 0.55 }
.component { stroke: #c96a12; stroke-width: 2.5; stroke-linecap: round }
text { font: 12px system-ui, sans-serif; fill: #4d555e }
@media (prefers-color-scheme: dark) {
.ground { fill: #14181d }
.axis { stroke: #5b6570 }
.point { fill: #7aa5ff }
.component { stroke: #f0a860 }
text { fill: #a4adb7 }
}"""


def points() -> Array:
    """Two variables of 120 samples, [2, 120], with means of 0: the second follows the first."""
    along, beside = np.random.default_rng(3).standard_normal((2, 120)) * [[1.3], [0.35]]
    rows = np.stack([0.8 * along - 0.6 * beside, 0.6 * along + 0.8 * beside])
    return rows - rows.mean(axis=1, keepdims=True)


def components(rows: Array) -> Components:
    """Both directions of two variables [2, n]."""
    return principal(covariance(rows), 2)


def picture() -> str:
    """The points and, from their mean, each direction as long as two deviations."""
    rows = points()
    found = components(rows)
    share = found.variances / found.variances.sum()
    dots = [f'<circle class="point" cx="{x}" cy="{y}" r="3"/>' for x, y in map(_place, rows.T)]
    arms = found.directions.T * 2 * np.sqrt(found.variances)[:, None]
    lines = [
        f'<line class="component" x1="{_place(-arm)[0]}" y1="{_place(-arm)[1]}" '
        f'x2="{_place(arm)[0]}" y2="{_place(arm)[1]}"/>'
        for arm in arms
    ]
    labels = [
        f'<text x="172" y="{270 + 18 * place}">component {place + 1}: {part:.0%}</text>'
        for place, part in enumerate(share)
    ]
    half = SIZE // 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" '
            f'width="{SIZE}" height="{SIZE}" role="img">',
            "<title>points along a line, and their two principal components</title>",
            f"<style>\n{STYLE}\n</style>",
            f'<rect class="ground" width="{SIZE}" height="{SIZE}"/>',
            f'<path class="axis" d="M0 {half}H{SIZE}M{half} 0V{SIZE}"/>',
            *dots,
            *lines,
            *labels,
            "</svg>\n",
        ]
    )


def _place(point: Array) -> tuple[str, str]:
    """Where a point [2] is in the picture: the second axis goes up."""
    x, y = SIZE / 2 + UNIT * point[0], SIZE / 2 - UNIT * point[1]
    return f"{x:.1f}", f"{y:.1f}"
