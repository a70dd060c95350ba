"""The operator that an author may have forgotten, where one shape should be another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from xg.ir.dim import ONE, Dim, product
from xg.ir.tensor import Shape


def advice(found: Shape, wanted: Shape, names: Sequence[str]) -> str:
    """How to get from `found` to `wanted`, in a few words; `names` are those of the axes found."""
    if not found:
        return (
            "this is one number: BC repeats it; an op of your own keeps axes, "
            "as op f(x [.., D], y [.., D]) = sum[D]((x - y)^2)"
        )
    gone = [name for name, dim in zip(names, found, strict=True) if dim not in wanted]
    if found == wanted:
        return ""  # it is not the shape
    if Counter(found) == Counter(wanted):
        return "T brings axes into another order"
    if _is_part(found, wanted):
        return "BC repeats along new axes"
    if gone and _is_part(wanted, found):
        return f"mean[{', '.join(gone)}] or sum[{', '.join(gone)}] removes axes"
    if product(found) == product(wanted):
        return "R splits and merges axes"
    return ""


def _is_part(few: Sequence[Dim], many: Sequence[Dim]) -> bool:
    """Whether the one is the other with some axes left out."""
    rest = iter(many)
    return all(dim in rest for dim in few)


def unequal_operands(
    sign: str, first: Shape, second: Shape, spell: Callable[[Shape], str]
) -> tuple[str, ...]:
    """How two operands of a sum or an elementwise product get one shape."""
    if _is_part(second, first):
        return (f"{sign}<-BC(…) repeats the operand along the missing axes",)
    if _is_part(first, second):
        return (f"turn them round: the larger one goes on, {sign}<-BC(…) repeats the smaller",)
    if len(first) != len(second):
        return ()
    if any(ONE in pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]):
        return ("an axis of 1 is not repeated: R takes it away, then BC repeats along a new one",)
    if Counter(first) == Counter(second):
        return (f"{sign}<-{_turn(second, first)}(…) gives the operand's axes as {spell(first)}",)
    return (*_projected(first, second, spell), *_one_name(first, second, spell))


def _turn(shape: Shape, wanted: Shape) -> str:
    """T, or T with a map, that gives the axes of a shape in a wanted order."""
    if (*shape[:-2], *shape[:-3:-1]) == wanted:
        return "T"
    places, letters = list(range(len(shape))), "abcdefghijklmnopqrstuvwxyz"
    order: list[str] = []
    for dim in wanted:
        place = next(place for place in places if shape[place] == dim)
        places.remove(place)
        order.append(letters[place])
    return f"T[{', '.join(letters[: len(shape)])} -> {', '.join(order)}]"


def _projected(first: Shape, second: Shape, spell: Callable[[Shape], str]) -> tuple[str, ...]:
    """The product that leads from the one to the other, where they differ in the last axis."""
    if first[:-1] != second[:-1] or not first[:-1]:
        return ()
    back = spell((first[-1], second[-1]))
    return (
        f"-> •<=W in front of it, with param W {back}, makes {spell(second)} of {spell(first)}",
    )


def _one_name(first: Shape, second: Shape, spell: Callable[[Shape], str]) -> tuple[str, ...]:
    """That two dims may be meant to be one."""
    different = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if len(set(different)) != 1:
        return ()
    left, right = (spell((dim,))[1:-1] for dim in different[0])
    if not (left.isidentifier() and right.isidentifier()):
        return ()
    return (f"{left} and {right} are two lengths: where they are one, write one name",)
