"""Sums over ranks that are begun as soon as they can be, and awaited where they are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Step, Value


@dataclass(frozen=True, slots=True)
class Overlap:
    """Steps in the order in which they are written; `begun` are those that are only begun there."""

    steps: tuple[Step, ...]
    begun: frozenset[Apply]


def overlap(steps: Sequence[Step], sent: Collection[Apply]) -> Overlap:
    """Put every step of `sent` right behind what it sends.

    Where nothing is computed between that and its first reader, there is nothing to gain.
    """
    order: list[Step] = [step for step in steps if step not in sent]
    for step in steps:
        if isinstance(step, Apply) and step in sent:
            order.insert(_behind(order, step.inputs), step)
    begun = {
        step
        for place, step in enumerate(order)
        if isinstance(step, Apply) and step in sent and _gains(order, place, step)
    }
    return Overlap(tuple(order), frozenset(begun))


def _behind(order: Sequence[Step], values: Collection[Value]) -> int:
    """The place behind the last step that makes one of some values."""
    makers = [p for p, step in enumerate(order) if any(v in values for v in step.outputs)]
    return max(makers, default=-1) + 1


def _gains(order: Sequence[Step], place: int, step: Apply) -> bool:
    """Whether something is computed before the result is read."""
    readers = (p for p in range(place + 1, len(order)) if step.outputs[0] in order[p].inputs)
    return next(readers, len(order)) > place + 1
