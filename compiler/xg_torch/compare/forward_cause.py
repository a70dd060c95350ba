"""Why an edge of theirs has other numbers: the error that, made in the diagram, gives theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime.module import Array
from xg_torch.compare.agreeing import off
from xg_torch.compare.flat_program import FlatEdge, FlatStep
from xg_torch.compare.variants import OtherWeights, variants


@dataclass(frozen=True, slots=True)
class Cause:
    """An error in words, and the step of the diagram at which it gives their numbers."""

    words: str
    edge: FlatEdge


def steps_between(edge: FlatEdge, agreed: AbstractSet[FlatEdge]) -> list[FlatStep]:
    """The steps that make an edge from edges whose numbers agree, the last first."""
    found: list[FlatStep] = []
    waiting = [edge]
    while waiting:
        step = waiting.pop(0).step
        if step is None or step in found or step.apply is None:
            continue
        found.append(step)
        waiting += [each for each in step.inputs if each not in agreed and not each.of]
    return sorted(found, key=lambda step: -step.number)


def forward_cause(
    edge: FlatEdge,
    theirs: Array,
    agreed: AbstractSet[FlatEdge],
    others: OtherWeights,
    tolerance: float,
) -> Cause | None:
    """The first error that explains an edge, looked for from the edge backwards."""
    steps = steps_between(edge, agreed)
    for number, step in enumerate(steps):
        later = steps[:number][::-1]
        own = [each.array for each in step.inputs]
        with np.errstate(all="ignore"):
            for words, array in variants(step, own, others):
                if array.shape != step.outputs[0].array.shape:
                    continue
                found = _again(edge, later, {step.outputs[0]: np.asarray(array, np.float64)})
                if off(theirs, found) <= tolerance:
                    return Cause(words, step.outputs[0])
    several = _everywhere(edge, theirs, steps, others, tolerance)
    if several is not None:
        return several
    words = factor_between(
        theirs, edge.array, edge.step.record.sizes if edge.step else {}, tolerance
    )
    return Cause(words, edge) if words else None


def _everywhere(
    edge: FlatEdge, theirs: Array, steps: Sequence[FlatStep], others: OtherWeights, tolerance: float
) -> Cause | None:
    """An error that is made at every step of one operator, as in the turns of queries and keys."""
    for operator in dict.fromkeys(step.operator for step in steps):
        same = [step for step in steps if step.operator == operator]
        if len(same) < 2:
            continue
        with np.errstate(all="ignore"):
            texts = [
                words
                for step in same
                for words, _ in variants(step, [each.array for each in step.inputs], others)
            ]
            for words in dict.fromkeys(text for text in texts if texts.count(text) > 1):
                found = _with_all(edge, steps, same, words, others)
                if found.shape == theirs.shape and off(theirs, found) <= tolerance:
                    return Cause(f"{words}, every time", same[-1].outputs[0])
    return None


def _with_all(
    edge: FlatEdge,
    steps: Sequence[FlatStep],
    same: Sequence[FlatStep],
    words: str,
    others: OtherWeights,
) -> Array:
    """An edge with an error at all of these steps."""
    changed: dict[FlatEdge, Array] = {}
    for step in reversed(steps):
        arrays = [changed.get(each, each.array) for each in step.inputs]
        tried = variants(step, arrays, others) if step in same else ()
        made = [array for text, array in tried if text == words]
        if made and made[0].shape == step.outputs[0].array.shape:
            changed[step.outputs[0]] = np.asarray(made[0], np.float64)
        elif any(each in changed for each in step.inputs):
            changed.update(zip(step.outputs, step.run(arrays), strict=False))
    return changed.get(edge, edge.array)


def _again(edge: FlatEdge, later: Sequence[FlatStep], changed: dict[FlatEdge, Array]) -> Array:
    """An edge, with the steps between run again where a change reaches them."""
    for step in later:
        if any(each in changed for each in step.inputs) and step.outputs[0] not in changed:
            arrays = [changed.get(each, each.array) for each in step.inputs]
            changed.update(zip(step.outputs, step.run(arrays), strict=False))
    return changed.get(edge, edge.array)


def factor_between(
    theirs: Array, ours: Array, sizes: Mapping[str, int], tolerance: float
) -> str | None:
    """The sentence where theirs is ours times one number."""
    norm = float((ours**2).sum())
    if not norm or theirs.shape != ours.shape or not np.isfinite(theirs).all():
        return None
    factor = float((theirs * ours).sum()) / norm
    if off(theirs, factor * ours) > tolerance or abs(factor - 1.0) <= tolerance:
        return None
    if abs(factor) <= tolerance:
        return "theirs is zero"
    small, whole = factor < 1, 1 / factor if 0 < factor < 1 else factor
    known = [name for name, size in sizes.items() if abs(size - whole) < 1e-6 * whole]
    pairs = combinations(sizes.items(), 2)
    known += [f"{a}·{b}" for (a, m), (b, n) in pairs if abs(m * n - whole) < 1e-6 * whole]
    text = f"{whole:.6g}" + (f" = {known[0]}" if known else "")
    if small and factor > 0:
        why = "a mean that is taken twice, or over the ranks where a sum belongs"
        return f"it is ours divided by {text}: {why}"
    why = "a sum where a mean belongs, or something counted more than once"
    return f"it is ours times {text}: {why}"
