"""Terms of gradients: where several nodes give a gradient of one tensor, each gives a term.

Only their sum is the tensor's gradient: dH [B, S, D], and each term is dH [B, S, D], 1 of 3.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.richtext import RichText, muted, plain
from xg.ir.graph import Apply, Backward, Value

_SUM: Final = "⊕"


@dataclass(frozen=True, slots=True)
class GradientPart:
    """Of which tensor a value is a part of the gradient, and which of its terms."""

    primal: Value
    terms: str

    def words(self) -> RichText:
        """Return which terms it is, in the quiet colour of shapes."""
        return muted(plain(f", {self.terms}"))


def gradient_parts(backward: Backward, names: Container[Value]) -> dict[Value, GradientPart]:
    """Find the terms of gradients of tensors that have a name, a label or another.

    Only sums that differentiation makes have terms, none that a block or a rank adds up itself.
    """
    sums = {
        step.outputs[0]: step.inputs
        for step in backward.steps
        if isinstance(step, Apply) and step.op.glyph == _SUM and step.origin is None
    }
    return {
        value: GradientPart(primal, terms)
        for total, primal in backward.of.items()
        if primal.name or primal in names
        for value, terms in _terms(total, sums, backward.of)
    }


def _terms(
    total: Value, sums: Mapping[Value, Sequence[Value]], whole: Container[Value]
) -> Iterator[tuple[Value, str]]:
    """Yield what a sum is made of, the last first, with which of the terms it has.

    A term that is the gradient of another tensor, too, may be a sum itself, but of other terms.
    """
    chain = [total]
    while chain[-1] in sums and (chain[-1] is total or chain[-1] not in whole):
        chain.append(sums[chain[-1]][0])
    count = len(chain)
    for last, value in zip(range(count, 1, -1), chain, strict=False):
        yield sums[value][1], f"{last} of {count}"
    for last, value in zip(range(count - 1, 0, -1), chain[1:], strict=True):
        numbers = {1: "1", 2: "1 + 2"}.get(last, f"1–{last}")
        yield value, f"{numbers} of {count}"
