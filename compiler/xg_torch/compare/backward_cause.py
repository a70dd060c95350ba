"""Why a gradient of theirs has other numbers: the part that is missing, or counted again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xg_runtime.module import Array
from xg_torch.compare.agreeing import off
from xg_torch.compare.flat_program import FlatEdge, FlatProgram, FlatStep
from xg_torch.compare.forward_cause import factor_between
from xg_torch.compare.variants import RANKS

SomeRows = Callable[[tuple[int, int, int]], Array | None]  # parts, which, along which axis
_ALL_ROWS = (1, 0, 0)
NOTHING = "no gradient arrives: it is frozen, detached, or computed without autograd"


def edge_cause(
    flat: FlatProgram, edge: FlatEdge, theirs: Array | None, tolerance: float
) -> str | None:
    """Why the gradient of an edge differs, where those behind it agree."""
    ours = edge.gradient
    assert ours is not None
    if theirs is None:
        return NOTHING
    for words, array in _edge_variants(flat, edge, ours):
        if array.any() and off(theirs, array) <= tolerance:
            return words
    return factor_between(theirs, ours, flat.sizes, tolerance)


def _edge_variants(flat: FlatProgram, edge: FlatEdge, ours: Array) -> Iterator[tuple[str, Array]]:
    for reader, part in _shares(flat, edge, ours):
        yield f"the gradient through {reader} is missing", ours - part
        yield f"the gradient through {reader} is counted twice", ours + part
    products = [step for step in flat.steps if step.operator == "matmul" and edge in step.inputs]
    readers = [
        (step, step.inputs.index(edge)) for step in products if step.outputs[0].gradient is not None
    ]
    for count in RANKS:
        cut = [each for each in (_cut(step, place, count) for step, place in readers) if each]
        for rank in range(count if cut else 0):
            array = ours - sum((sum(parts) for parts in cut), np.zeros_like(ours))
            array = array + sum((parts[rank] for parts in cut), np.zeros_like(ours))
            words = (
                f"it is what rank {rank} of {count} has: the sum over ranks, an all-reduce in "
                "the backward pass, is missing"
            )
            yield words, array


def _shares(flat: FlatProgram, edge: FlatEdge, ours: Array) -> list[tuple[str, Array]]:
    """The part of a gradient from each reader; one that passes its own on is the rest."""
    readers = [step for step in flat.steps if edge in step.inputs]
    if len(readers) < 2:
        return []
    shares = list(edge.parts)
    known = {name for name, _ in shares}
    names = [f"{step.glyph} of line {step.outputs[0].line}" for step in readers]
    others = [name for name in names if name not in known]
    if others and len(shares) < len(readers):
        rest = ours - sum((part for _, part in shares), np.zeros_like(ours))
        shares.append((" and ".join(dict.fromkeys(others)), rest))
    return shares


def _cut(step: FlatStep, place: int, count: int) -> list[Array] | None:
    """The gradient of an operand of a product from each slice of the product's own columns."""
    spec, out = str(step.attrs["spec"]).split("->")
    mine, other = spec.split(",")[place], spec.split(",")[1 - place]
    letters = [letter for letter in out if letter in other and letter not in mine]
    d_out, operand = step.outputs[0].gradient, step.inputs[1 - place].array
    if d_out is None or not letters or d_out.shape[out.index(letters[-1])] % count:
        return None
    parts = np.split(d_out, count, out.index(letters[-1]))
    slices = np.split(operand, count, other.index(letters[-1]))
    return [np.einsum(f"{out},{other}->{mine}", d, x) for d, x in zip(parts, slices, strict=True)]


def param_cause(flat: FlatProgram, path: str, theirs: Array | None, tolerance: float) -> str | None:
    """Why the gradient of a parameter differs, where those of edges agree."""
    ours = flat.params[path].gradient
    assert ours is not None
    if theirs is None:
        return NOTHING
    words = factor_between(theirs, ours, flat.sizes, tolerance)
    if words is not None:
        return words
    if ours.ndim == 2 and ours.shape == ours.T.shape and off(theirs, ours.T) <= tolerance:
        return "it is transposed"
    uses = [(step, rows) for step in flat.steps if (rows := _rows(step, path)) is not None]
    if len(uses) > 1:
        for step, rows in uses:
            whole = rows(_ALL_ROWS)
            if whole is not None and off(theirs, whole) <= tolerance:
                line = step.outputs[0].line
                return (
                    f"it is the part from {step.glyph} of line {line} only: its uses are not "
                    "tied, or one is detached"
                )
    if uses:
        return _of_some_rows(flat, theirs, [rows for _, rows in uses], tolerance)
    return None


def _of_some_rows(
    flat: FlatProgram, theirs: Array, uses: Sequence[SomeRows], tolerance: float
) -> str | None:
    """Whether a gradient is from a part of the batch, or of the sequence, only."""
    for axis in (0, 1):
        for count in RANKS:
            for rank in range(count):
                arrays = [a for rows in uses if (a := rows((count, rank, axis))) is not None]
                if len(arrays) < len(uses):
                    break
                part = np.sum(arrays, axis=0)
                words = (
                    f"it is from rank {rank} of {count} only, cut along axis {axis}: "
                    "the sum over ranks is missing"
                )
                if off(theirs, part) <= tolerance:
                    return words
                scaled = factor_between(theirs, part, flat.sizes, tolerance)
                if scaled is not None and scaled != "theirs is zero":
                    return f"{words}, and {scaled.replace('ours', 'that')}"
    return None


def _rows(step: FlatStep, path: str) -> SomeRows | None:
    """The gradient that one use of a parameter gives, from some of the rows; None if unknown."""
    places = [place for place, edge in enumerate(step.inputs) if path in edge.of]
    d_out = step.outputs[0].gradient if step.outputs else None
    if not places or d_out is None or all(edge.of for edge in step.inputs) or step.apply is None:
        return None
    place = places[0]
    edge, data = step.inputs[place], next(e for e in step.inputs if not e.of).array

    def part(cut: tuple[int, int, int]) -> Array | None:
        count, rank, axis = cut
        d, x = d_out, data
        if count > 1:
            if (
                d.ndim <= axis
                or d.shape[axis] % count
                or x.shape[: axis + 1] != d.shape[: axis + 1]
            ):
                return None
            d, x = (np.split(each, count, axis)[rank] for each in (d, x))
        return _gradient(step, place, edge, d, x)

    return part if part(_ALL_ROWS) is not None else None


def _gradient(step: FlatStep, place: int, edge: FlatEdge, d: Array, x: Array) -> Array | None:
    """The gradient of a parameter at one step, from cotangent and operand."""
    shape = edge.array.shape
    if step.operator == "matmul":
        spec, out = str(step.attrs["spec"]).split("->")
        terms = spec.split(",")
        found = np.einsum(f"{out},{terms[1 - place]}->{terms[place]}", d, x)
        (path,) = edge.of if len(edge.of) == 1 else ("",)
        return found if edge.param == path else found.T if found.ndim == 2 else None
    if step.operator == "embedding":
        found = np.zeros(shape)
        np.add.at(found, x, d)
        return found
    if step.operator == "add":
        return d.sum(tuple(range(d.ndim - 1)))
    if step.operator == "layer_norm" and place == 1:
        eps = step.attrs["eps"].evaluate(step.record.sizes)
        normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return (d * normal).sum(tuple(range(d.ndim - 1)))
    if step.operator == "layer_norm":
        return d.sum(tuple(range(d.ndim - 1)))
    return None
