"""The display list: a finished picture as paths and lines of text, for every output format.

Colours are uses, not values: the theme comes in when a format is written.
"""

from __future__ import annotations

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.draw.typeset import TextLine
from xg.figures.model.geometry import DrawnPath
from xg.figures.model.style import OF_MARKS, Color


@dataclass(frozen=True, slots=True)
class DrawnShape:
    """A path that is filled, stroked or both."""

    path: DrawnPath
    fill: Color | None = None
    line: Color | None = None
    width: float = 0.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class DrawnText:
    """A set line whose baseline starts at `x`, `y`; its muted spans are set in MUTED.

    Text of another width stays where it is at its start, its middle or its end: 0, 0.5, 1.
    """

    line: TextLine
    x: float
    y: float
    color: Color = Color.INK
    align: float = 0.0


@dataclass(frozen=True, slots=True)
class Wire:
    """The elements at an edge's ends by their `op`, and a name of the value that it carries.

    `output` is the number of a result: of the tail, of a dashed edge of the head.
    """

    tail: str
    head: str
    value: str
    output: int = 0

    @property
    def ends(self) -> tuple[str, str, int]:
        """Return the key of an edge."""
        return self.tail, self.head, self.output

    @property
    def back(self) -> tuple[str, str, int]:
        """Return the key of the edge that runs the other way beside it."""
        return self.head, self.tail, self.output


@dataclass(frozen=True, slots=True)
class Element:
    """One element: a node, an edge with its label, a lane. `op` is its `data-op`."""

    op: str
    kind: str
    title: str
    parts: tuple[DrawnShape | DrawnText, ...]
    wire: Wire | None = None  # of an edge


@dataclass(frozen=True, slots=True)
class Display:
    """A picture of `width` by `height` points, its elements from back to front."""

    width: float
    height: float
    title: str
    description: str
    elements: tuple[Element, ...]

    def colors(self) -> list[Color]:
        """Return the uses of colour to define: the usual ones, and those of marks that it has."""
        parts = [part for element in self.elements for part in element.parts]
        marked = {part.color for part in parts if isinstance(part, DrawnText)}
        marked |= {part.line for part in parts if isinstance(part, DrawnShape)}
        return [one for one in Color if one not in OF_MARKS or one in marked]
