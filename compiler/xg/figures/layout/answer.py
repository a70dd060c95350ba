"""Reading a layout engine's answer, Graphviz's json0, into places on a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.unit import Unit
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box, Path, Point, bezier
from xg.figures.model.structure import Structure


def read_answer(
    answer: str, figure: Figure, facts: Structure, units: Sequence[Unit], engine: str
) -> PlacedFigure:
    """Turn the engine's boxes and curves around, so that y grows downwards, and name them."""
    data: dict[str, Any] = json.loads(answer)
    height = float(data["bb"].split(",")[3])
    boxes = {item["name"]: _box(item, height) for item in data.get("objects", ()) if "pos" in item}
    nodes: dict[str, Box] = {}
    for number, unit in enumerate(units):
        nodes |= unit.boxes(boxes[f"n{number}"].center)
    labels = {int(name[1:]): box for name, box in boxes.items() if name.startswith("l")}
    curves = _curves(data, height)
    return PlacedFigure(figure, facts, nodes, labels, curves, engine)


def _box(item: Mapping[str, Any], height: float) -> Box:
    x, y = map(float, item["pos"].split(","))
    return Box.around((x, height - y), 72 * float(item["width"]), 72 * float(item["height"]))


def _curves(data: Mapping[str, Any], height: float) -> dict[int, Path]:
    """Join the curves into and out of an edge's label to one."""
    parts: dict[str, list[Point]] = {}
    for item in data.get("edges", ()):
        if "id" in item and "pos" in item:
            parts[item["id"]] = [_point(point, height) for point in item["pos"].split()]
    curves: dict[int, Path] = {}
    for name, points in parts.items():
        if name.startswith("a"):
            number = int(name[1:])
            curves[number] = _joined(points, parts.get(f"b{number}"))
    return curves


def _point(text: str, height: float) -> Point:
    x, y = map(float, text.split(","))
    return x, height - y


def _joined(above: list[Point], below: list[Point] | None) -> Path:
    if below is None:
        return bezier(above)
    # Beside the label the line runs straight from where it arrives to where it leaves.
    return bezier([*above, above[-1], below[0], *below])
