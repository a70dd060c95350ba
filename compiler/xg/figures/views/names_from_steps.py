"""Names that steps give to values without one: of a sum to its terms, of a tensor to its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from xg.ir.collective import FAMILY
from xg.ir.graph import Apply, Graph, Value
from xg.ir.placement import is_term

_MOVES: Final = ("AG", "A2A", "part")  # that leave every element as it is


def terms_of_sums(graph: Graph) -> dict[Value, str]:
    """Name the terms that the file does not name after their sum; what a bias follows has none."""
    named: dict[Value, str] = {}
    for step in reversed(graph.steps):
        if isinstance(step, Apply) and step.op.family == FAMILY:
            (result, *_), first = step.outputs, step.inputs[0]
            name = result.name or named.get(result)
            if name and first.name is None:
                named[first] = name
    return {value: name for value, name in named.items() if is_term(graph.placements.get(value))}


def names_of_same_elements(graph: Graph, *, is_brief: bool = False) -> dict[Value, str]:
    """Name what has the elements of a named value in another shape, or those of its part.

    A reshape or a move is between both: Q [B, S, D] -> R : Q [B, N_H, S, D_h]. A value that goes
    elsewhere, too, is not named after what becomes of it, nor one of which a transpose, KT, is
    made. If it is brief, only what is put together of a parameter's parts has a name.
    """
    moves = [step for step in graph.steps if isinstance(step, Apply) and _keeps_elements(step)]
    if is_brief:
        moves = [one for one in moves if one.op.glyph == "AG" and one.inputs[0].role == "param"]
    named: dict[Value, str] = {}
    for step in moves:
        before, (after, *_) = step.inputs[0], step.outputs
        name = before.name or named.get(before)
        if name and after.name is None:
            named[after] = name
    uses = Counter(value for step in graph.steps for value in step.inputs)
    uses.update(graph.outputs)
    for step in reversed(moves):
        before, (after, *_) = step.inputs[0], step.outputs
        name = after.name or named.get(after)
        if not name or _is_transposed(name) or before.name is not None:
            continue
        if before not in named and uses[before] == 1:
            named[before] = name
    return named


def _is_transposed(name: str) -> bool:
    """Return whether a value is called a transpose, KT, as no value in front of it is."""
    return len(name) > 1 and name.endswith("T") and name[:-1].isupper()


def _keeps_elements(step: Apply) -> bool:
    return step.op.glyph == "R" or (step.op.family == FAMILY and step.op.glyph in _MOVES)


def transpose_names(graph: Graph, same: Mapping[Value, str]) -> dict[Value, str]:
    """Find values like KT = T(K), and those of T(E) that have no name."""
    turned = [
        (step, step.inputs[0].name or same.get(step.inputs[0]))
        for step in graph.steps
        if isinstance(step, Apply) and step.op.glyph == "T" and swaps_last_two(step)
    ]
    return {
        step.outputs[0]: name
        for step, name in turned
        if name and step.outputs[0].name in (None, f"{name}T")
    }


def swaps_last_two(step: Apply) -> bool:
    """Return whether a T exchanges the last two axes and nothing else, which is written ⊤."""
    order: tuple[int, ...] = step.attrs["order"]
    count = len(order)
    return order == (*range(count - 2), count - 1, count - 2)
