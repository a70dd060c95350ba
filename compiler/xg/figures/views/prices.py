"""Prices of collectives as they stand in boxes and bars (seed 001, 6.2 and 7.3).

Costs are elements that a rank sends, of V in all: naively through one rank, or around a ring.
"""

from __future__ import annotations

from collections.abc import Sequence

from xg.figures.model.richtext import RichText, bold, dimension, plain


def name(glyph: str, axis: str) -> RichText:
    """Return what stands in the box: AR N_T."""
    return (*bold(glyph), *plain(" "), *dimension(axis))


def prices(glyph: str, axis: str, volume: str) -> tuple[RichText, ...]:
    """Return the lines of a collective's cost for so many elements of the whole."""
    others = (*plain("("), *dimension(axis), *plain(" − 1)"))
    part = (*others, *plain("/"), *dimension(axis))
    if glyph == "AR":
        naive = (*plain("naive 2"), *others, *_times(volume))
        return naive, (*plain("ring 2"), *part, *_times(volume))
    return ((*plain("naive, ring "), *part, *_times(volume)),)


def in_one_line(prices: Sequence[RichText]) -> RichText:
    """Return prices beside each other."""
    first, *others = prices
    return (*first, *(run for one in others for run in (*plain(",  "), *one)))


def _times(volume: str) -> RichText:
    return (*plain(" · "), *dimension(volume)) if volume else ()
