"""The curve of a run as an SVG: raw and smoothed training loss, validation, reference lines.

    draw(records, {"unigram entropy": 3.1}) -> str
    draw(records, {}, {"always the same": 0.5})      accuracy below, with lines of its own

Records are those of the log. The accuracy of validation is drawn where they have it. The bytes
depend on what is given only.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from xg_runtime.chart import (
    LEFT,
    RIGHT,
    Frame,
    Point,
    axes,
    dots,
    legend,
    line,
    page,
    reference,
)
from xg_runtime.log import Record

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
    """Return the mean of each point's neighbours on both sides, so that the line does not lag."""
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
