"""Prices of collectives as written in boxes and bars (seed 001, 6.2 and 7.3).

Costs are elements that a rank sends, of V in all: naively through one rank, or around a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xg.cost.communication import KINDS, WAYS, share
from xg.figures.model.richtext import RichText, bold, dimension, plain
from xg.ir.placement import axes_over, is_zigzag

_SUMS: Final = ("AR", "RS")


def name(glyph: str, axis: str) -> RichText:
    """Return the text of the box: AR N_T."""
    return (*bold(glyph), *plain(" "), *mesh_axes(axis))


def order(axis: str) -> str:
    """Return ` in zigzag`, where each rank has a chunk from each end."""
    return " in zigzag" if is_zigzag(axis) else ""


def summed(glyph: str, axis: str) -> tuple[RichText, ...]:
    """Return the line of a box that says that it makes partial values their sum: Σ over N_T."""
    return ((*plain("Σ over "), *mesh_axes(axis)),) if glyph in _SUMS else ()


def prices(glyph: str, axis: str, volume: str) -> tuple[RichText, ...]:
    """Return the lines of a collective's cost for so many elements of the whole."""
    axes = mesh_axes(axis)
    others = (*plain("("), *axes, *plain(" − 1)"))
    below = (*plain("("), *axes, *plain(")")) if len(axes_over(axis)) > 1 else axes
    ways: dict[tuple[int, bool], list[str]] = {}
    for way in WAYS:
        ways.setdefault(share(KINDS[glyph], way), []).append(way)
    return tuple(
        (
            *plain(f"{', '.join(names)} {times if times > 1 else ''}"),
            *others,
            *((*plain("/"), *below) if divided else ()),
            *_times(volume),
        )
        for (times, divided), names in ways.items()
    )


def mesh_axes(over: str) -> RichText:
    """Return the mesh axes of a collective, several as a product."""
    first, *others = axes_over(over)
    return (*dimension(first), *(run for a in others for run in (*plain(" · "), *dimension(a))))


def in_one_line(prices: Sequence[RichText]) -> RichText:
    """Return prices beside each other."""
    first, *others = prices
    return (*first, *(run for one in others for run in (*plain(",  "), *one)))


def _times(volume: str) -> RichText:
    return (*plain(" · "), *dimension(volume)) if volume else ()
