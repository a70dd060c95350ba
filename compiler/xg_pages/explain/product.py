"""A matrix product as three matrices: a row, the column that it meets, and the number they make."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from xg.figures.views.notation import is_transposed
from xg.ir.graph import Apply, Value
from xg.verify.examples.claim_check import Array
from xg_pages.explain.naming import BlockNaming
from xg_pages.explain.page import ShownTensor

SIGNS: Final = ("", "•", "=")  # before each of the three
FRAMES: Final = ("row", "column", "cell")  # the parts that the first number concerns


def product_of(
    step: Apply, naming: BlockNaming, values: Mapping[Value, Array]
) -> tuple[ShownTensor, ...]:
    """The operands as the equation writes them, and the result; empty where it is no product.

    Axes that are summed together become one, as in ``[D_ff, B·S] • [B·S, D]``.
    """
    if step.op.name != "matmul":
        return ()
    letters, result = str(step.attrs["spec"]).split("->")
    operands = letters.split(",")
    summed = [letter for letter in operands[0] if letter not in result]
    shown: list[ShownTensor] = []
    for place, (own, value) in enumerate(zip(operands, step.inputs, strict=True)):
        kept = [[letter] for letter in result if letter in own]
        kept.insert(len(kept) - place, summed)
        axes = [[own.index(letter) for letter in group] for group in kept]
        dims = naming.dims(value)
        type_ = ", ".join("·".join(dims[axis] for axis in group) for group in axes)
        array = values[value]
        lengths = [prod(array.shape[axis] for axis in group) for group in axes]
        moved = array.transpose([axis for group in axes for axis in group]).reshape(lengths)
        mark = "⊤" if is_transposed(step, place) else ""
        name = f"{naming.operand(value)}{mark}".replace("⊤⊤", "")
        shown.append(ShownTensor(name, f"[{type_}]", moved))
    (made,) = step.outputs
    name, type_ = naming.name(made), ", ".join(naming.dims(made))
    return (*shown, ShownTensor(name, f"[{type_}]", values[made]))
