"""Attributes of steps and primitives as text, every kind distinct, and back."""

from __future__ import annotations

import json
from typing import cast

from xg.ir.dim import Dim
from xg.ir.placement import AxisState
from xg.ir.scalar import Scalar
from xg.ir.tensor import Sizes
from xg.passes.ir_text.expression import as_dim, as_number, spell_dim, spell_scalar
from xg.passes.ir_text.grammar import CONSTANTS
from xg.passes.ir_text.records import Attribute, Constant, NumberAttr, Several, ShapeText, SizeAttr


def spell_attribute(value: object, sizes: Sizes) -> str:
    """An attribute: ``2`` ``2.0`` ``true`` ``none`` ``"tanh"`` ``|S|`` ``[B, S]`` ``(0, 1)``."""
    match value:
        case None | bool():
            return "none" if value is None else str(value).lower()
        case int():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case AxisState():
            return f"@{value}"
        case Dim():
            return f"|{spell_dim(value, sizes)}|"
        case Scalar():
            text = spell_scalar(value)
            return f"size({text})" if text in CONSTANTS else text
        case tuple():
            return _spell_tuple(cast("tuple[object, ...]", value), sizes)
        case _:
            raise TypeError(f"an attribute is {value!r}")


def _spell_tuple(items: tuple[object, ...], sizes: Sizes) -> str:
    if items and all(isinstance(item, Dim) for item in items):
        return "[" + ", ".join(spell_dim(cast("Dim", item), sizes) for item in items) + "]"
    texts = [spell_attribute(item, sizes) for item in items]
    return "(" + ", ".join(texts) + ("," if len(texts) == 1 else "") + ")"


def attribute(text: Attribute, sizes: Sizes) -> object:
    """The attribute that a text spells; raises Meaningless."""
    match text:
        case NumberAttr():
            return as_number(text.expression)
        case SizeAttr():
            return as_dim(text.expression, sizes)
        case ShapeText():
            return tuple(as_dim(dim, sizes) for dim in text.shape)
        case Constant():
            return text.value
        case Several():  # as deep as the operator's author nested it
            return tuple(attribute(item, sizes) for item in text.items)
