"""Lines through bars: which arrow goes on behind a bar as which other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from xg.figures.model.figure import EdgeStyle, Figure


def through_bars(figure: Figure, aside: Collection[str] = ()) -> dict[int, int]:
    """Map arrows to the only one that leaves the bar that they enter, by their numbers.

    Where several enter a bar that does something with them, none of them goes on. Bars that stand
    `aside` are where their lines are already.
    """
    solid = [(n, e) for n, e in enumerate(figure.edges) if e.style is not EdgeStyle.DASHED]
    leaving: dict[str, list[int]] = defaultdict(list)
    for number, edge in solid:
        if edge.tail in figure.levels:
            leaving[edge.tail].append(number)
    entering = Counter(edge.head for _, edge in solid)
    return {
        number: leaving[edge.head][0]
        for number, edge in solid
        if len(leaving[edge.head]) == 1 and edge.head not in aside
        if edge.passes or entering[edge.head] == 1
    }
