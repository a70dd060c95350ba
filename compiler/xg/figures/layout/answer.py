"""Reading a layout engine's answer, Graphviz's json0, into places on a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from xg.figures.layout.placed import PlacedFigure
from xg.figures.layout.unit import NodeUnit
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box
from xg.figures.model.structure import Structure


def read_answer(
    answer: str, figure: Figure, facts: Structure, units: Sequence[NodeUnit], engine: str
) -> PlacedFigure:
    """Turn the engine's boxes around, so that y grows downwards, and name them."""
    data: dict[str, Any] = json.loads(answer)
    height = float(data["bb"].split(",")[3])
    boxes = {item["name"]: _box(item, height) for item in data.get("objects", ()) if "pos" in item}
    nodes: dict[str, Box] = {}
    for number, unit in enumerate(units):
        nodes |= unit.boxes(boxes[f"n{number}"].center)
    labels = {int(name[1:]): box for name, box in boxes.items() if name.startswith("l")}
    return PlacedFigure(figure, facts, nodes, labels, engine)


def _box(item: Mapping[str, Any], height: float) -> Box:
    x, y = map(float, item["pos"].split(","))
    return Box.around((x, height - y), 72 * float(item["width"]), 72 * float(item["height"]))
