"""A figure with a place for every box: what layout engines answer and routes are drawn around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import Figure
from xg.figures.model.geometry import Box, DrawnPath, turned
from xg.figures.model.structure import Structure


@dataclass(frozen=True, slots=True)
class PlacedFigure:
    """Boxes of nodes by id; boxes of labels and, once routed, paths by the edge's number.

    `engine` is the name of the engine that placed it; `warning` says what was wrong with those
    before it, empty where the first one answered. Lines at the nodes in `cramped` are too near to
    each other. Everything is placed and routed from the top down; a figure that is drawn from left
    to right is `turned` before it is painted. If `apart`, values may leave bars anywhere.
    """

    figure: Figure
    facts: Structure
    nodes: Mapping[str, Box]
    labels: Mapping[int, Box]
    engine: str
    warning: str = ""
    paths: Mapping[int, DrawnPath] = field(default_factory=dict[int, DrawnPath])
    cramped: frozenset[str] = frozenset()
    is_turned: bool = False
    apart: bool = False

    def turned(self) -> PlacedFigure:
        """Return the figure with x and y exchanged."""
        return replace(
            self,
            nodes={node: box.turned() for node, box in self.nodes.items()},
            labels={number: box.turned() for number, box in self.labels.items()},
            paths={number: turned(path) for number, path in self.paths.items()},
            is_turned=not self.is_turned,
        )
