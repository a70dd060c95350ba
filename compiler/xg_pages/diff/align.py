"""Which steps of two graphs are the same, where their names are only numbers: ``⊕_2``.

A step that comes in front renumbers those behind it, and nothing of these has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Graph, Value

Signature = tuple[str, tuple[str, ...], tuple[str, ...]]


def places_in(new: Graph, old: Graph) -> dict[str, str]:
    """The place in the new graph of every unnamed step of the old one.

    Steps are the same that do the same with operands of the same names, in the same order; one that
    is where another one was has changed. A step that is gone has a place that no other has.
    """
    before, after = _steps(old), _steps(new)
    matcher = SequenceMatcher(None, [*map(_signature, before)], [*map(_signature, after)], False)
    pairs = dict[str, str]()
    for tag, i, i_end, j, j_end in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and i_end - i == j_end - j):
            pairs |= dict(_unnamed_pairs(before[i:i_end], after[j:j_end]))
    taken = {step.place for step in after}
    for step in before:
        if step.place not in pairs and not _is_named(step):
            pairs[step.place] = f"{step.place} before" if step.place in taken else step.place
    return pairs


def _steps(graph: Graph) -> list[Apply]:
    return [step for step in graph.steps if isinstance(step, Apply) and step.op.family != FAMILY]


def _unnamed_pairs(before: Sequence[Apply], after: Sequence[Apply]) -> Iterator[tuple[str, str]]:
    for old, new in zip(before, after, strict=True):
        if not _is_named(old) and not _is_named(new):
            yield old.place, new.place


def _is_named(step: Apply) -> bool:
    return step.outputs[0].name is not None


def _signature(step: Apply) -> Signature:
    results = [value for value in step.outputs if value.role != "cache"]
    return step.op.glyph, _names(step.inputs[1:]), _names(results)  # the first one is on the way


def _names(values: Sequence[Value]) -> tuple[str, ...]:
    return tuple(str(value.name or "") for value in values)
