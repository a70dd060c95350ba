"""How a use of an operator is written."""

from __future__ import annotations

from xg.ir.op import Op
from xg.ir.scalar import spell_number
from xg.ir.use import Length, Number, Own, Tensor, Word


def signature(op: Op) -> str:
    """A use as the language writes it: ``x -> LN(gamma?, beta?, eps = 1e-05) : y``."""
    data = [f"{each.name}{'?' if each.optional else ''}" for each in op.data]
    own = ", ".join(map(_spelled, op.own))
    attached = "" if op.variadic else "".join(f"{attaching(op)}{name}" for name in data[1:])
    first = "x_1, x_2, …" if op.variadic else "".join(data[:1])
    node = f"{op.glyph}({own})" if own else op.glyph
    chain = f"{first} -> {node}{attached}" if first else node
    return f"{chain} : {', '.join(op.outputs) or '…'}"


def attaching(op: Op) -> str:
    """The arrow that brings an operand to a node from beside the chain."""
    return "<=" if op.family == "matmul" else "<-"


def _spelled(own: Own) -> str:
    match own:
        case Word():
            return f"{own.name} = {' | '.join(own.choices)}"
        case Number(default=float() as default):
            return f"{own.name} = {spell_number(default)}"
        case Number(optional=True) | Tensor(optional=True) | Length(optional=True):
            return f"{own.name}?"
        case _:
            return own.name
