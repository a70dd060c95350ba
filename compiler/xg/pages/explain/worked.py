"""The first number of a product, worked out: `0.1·0.2 + 0.3·0 + 0.5·0.1 = 0.07`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Final

from xg.ir.graph import Apply, Value
from xg.pages.explain.numbers import number
from xg.verify.examples.recompute import Array

TERMS: Final = 6  # of a longer sum the first ones are shown


def worked(step: Apply, values: Mapping[Value, Array]) -> str:
    """The sum behind the first number that a product gives; empty for any other step."""
    spec = step.attrs.get("spec")
    if step.op.family != "matmul" or not isinstance(spec, str):
        return ""
    inputs, result = spec.split("->")
    first, second = inputs.split(",")
    a, b = (values[value] for value in step.inputs)
    lengths = dict(zip(first + second, a.shape + b.shape, strict=True))
    summed = [letter for letter in first if letter in second and letter not in result]
    if set(first + second) - set(result) - set(summed):
        return ""
    terms: list[str] = []
    for places in product(*(range(lengths[letter]) for letter in summed)):
        if len(terms) == TERMS:
            terms.append("…")
            break
        at = dict(zip(summed, places, strict=True))
        pair = (
            x[tuple(at.get(letter, 0) for letter in letters)]
            for x, letters in ((a, first), (b, second))
        )
        terms.append("·".join(_factor(float(each)) for each in pair))
    array = values[step.outputs[0]]
    return f"{' + '.join(terms)} = {number(float(array.flat[0]))}"


def _factor(value: float) -> str:
    text = number(value)
    return f"({text})" if text.startswith("-") else text
