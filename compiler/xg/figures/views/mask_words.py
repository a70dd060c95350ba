"""Masks that a block puts on scores itself: its box says them, as they change its meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xg.ir.graph import Apply, Step


def with_masks(title: str, steps: Iterable[Step]) -> str:
    """Return a block's title with the masks of some steps: `Multi-Head Attention, causal`.

    A mask that the title has already is not repeated.
    """
    words = dict.fromkeys(_masks(steps))
    return ", ".join((title, *(word for word in words if word not in title.casefold())))


def _masks(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        mask = step.attrs.get("mask") if isinstance(step, Apply) else None
        if isinstance(mask, str) and mask != "none":
            yield mask
