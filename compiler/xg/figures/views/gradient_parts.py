"""Terms of gradients: where several nodes give a gradient of one tensor, each gives a term.

Only their sum is the tensor's gradient: dH [B, S, D], and each term is dH [B, S, D], 1 of 3. One
that is the gradient of another tensor has that name, and is not counted: the others are less
that one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.richtext import RichText, muted, plain
from xg.ir.graph import Apply, Backward, Value

_SUM: Final = "⊕"
_MANY: Final = 3  # numbers that are written as a range
_NAMED: Final = 3  # names that are all written


@dataclass(frozen=True, slots=True)
class GradientPart:
    """Of which tensor a value is a part of the gradient, and which of its terms.

    `terms` are numbers of those without another name. Gradients of other tensors are `among` them;
    a part that has all but these is `less` them.
    """

    primal: Value
    terms: str = ""
    among: tuple[Value, ...] = ()
    less: tuple[Value, ...] = ()

    def words(self, symbol: Callable[[Value], RichText]) -> RichText:
        """Return which terms it is, in the quiet colour of shapes."""
        others = self.less or self.among
        runs = plain(", less " if self.less else f", {self.terms}" if not others else ", ")
        few = others if len(others) <= _NAMED else (others[0], others[-1])
        for one in few:
            between = " + " if few is others else " + … + "
            runs += (*(plain(between) if one is not few[0] else ()), *symbol(one))
        return muted((*runs, *plain(f" + {self.terms}" if self.among and self.terms else "")))


def gradient_parts(backward: Backward, names: Container[Value]) -> dict[Value, GradientPart]:
    """Find the terms of gradients of tensors that have a name, a label or another.

    Only sums that differentiation makes have terms, none that a block or a rank adds up itself.
    """
    sums = {
        step.outputs[0]: step.inputs
        for step in backward.steps
        if isinstance(step, Apply) and step.op.glyph == _SUM and step.origin is None
    }

    def has_name(gradient: Value, term_of: Value) -> bool:
        """As in figures: the whole gradient of another tensor with a name."""
        primal = backward.of.get(gradient)
        if primal is None or primal is term_of:
            return False
        is_whole = backward.totals.get(primal, gradient) is gradient
        return bool(gradient.name) or (is_whole and primal in names)

    return {
        value: part
        for total, primal in backward.of.items()
        if primal.name or primal in names
        for value, part in _parts(primal, _added(total, sums, backward.of), has_name)
    }


def _added(
    total: Value, sums: Mapping[Value, Sequence[Value]], whole: Container[Value]
) -> tuple[list[Value], list[Value]]:
    """Return what is added up to a gradient, the first first, and the sums of two and more.

    A term that is the gradient of another tensor, too, may be a sum itself, but of other terms.
    """
    chain = [total]
    while chain[-1] in sums and (chain[-1] is total or chain[-1] not in whole):
        chain.append(sums[chain[-1]][0])
    first, *added = reversed(chain)
    return [first, *(sums[one][1] for one in added)], added


def _parts(
    primal: Value,
    added: tuple[list[Value], list[Value]],
    has_name: Callable[[Value, Value], bool],
) -> Iterator[tuple[Value, GradientPart]]:
    """Yield the terms of a gradient, and the sums of some."""
    terms, sums = added
    others = [one for one in terms if has_name(one, primal)]
    own = [one for one in terms if one not in others]
    groups = [(one, [one]) for one in own if len(terms) > 1]
    groups += [(one, terms[: count + 2]) for count, one in enumerate(sums[:-1])]
    for value, group in groups:
        numbers = [own.index(one) + 1 for one in group if one in own]
        if len(numbers) == len(own):
            missing = tuple(one for one in others if one not in group)
            yield value, GradientPart(primal, less=missing)
        else:
            among = tuple(one for one in group if one in others)
            count = f"{_listed(numbers)} of {len(own)}" if numbers else ""
            yield value, GradientPart(primal, count, among)


def _listed(numbers: Sequence[int]) -> str:
    """Return numbers that follow each other."""
    return " + ".join(map(str, numbers)) if len(numbers) < _MANY else f"{numbers[0]}–{numbers[-1]}"
