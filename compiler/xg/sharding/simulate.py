"""All ranks of one mesh axis in one process: the reference meaning of local bodies.

Every expression is computed for all ranks before the next one begins, so a collective sees the
parts of all. Plain on purpose, as `xg.evaluate` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg.evaluate import Context
from xg.placement import State
from xg.prim import Expr, topological

Array = NDArray[Any]


def run(
    outputs: Sequence[Expr], operands: Sequence[Mapping[str, Array]], context: Context
) -> list[list[Array]]:
    """The outputs of every rank (rank, then output), given the operands of every rank."""
    ranks = range(len(operands))
    values: dict[int, list[Array]] = {}
    for expr in topological(outputs):
        args = [values[id(arg)] for arg in expr.args]
        if expr.prim == "operand":
            values[id(expr)] = [operands[r][str(expr.attr("name"))] for r in ranks]
        elif expr.prim in ("all_reduce", "all_reduce_max"):
            add = context.arithmetic.add
            whole = reduce(add if expr.prim == "all_reduce" else np.maximum, args[0])
            values[id(expr)] = [whole] * len(operands)
        else:
            values[id(expr)] = [
                _one(expr, r, [arg[r] for arg in args], context, len(ranks)) for r in ranks
            ]
    return [[values[id(output)][r] for output in outputs] for r in ranks]


def _one(expr: Expr, rank: int, args: Sequence[Array], context: Context, ranks: int) -> Array:
    meanings = context.arithmetic.meanings
    match expr.prim:
        case "own":
            axis = int(str(expr.attr("axis")))
            return np.split(args[0], ranks, axis)[rank]
        case "held" | "within":
            rows = context.size(expr.attr("rows"))
            inside = args[0] - rank * rows
            held = (inside >= 0) & (inside < rows)
            return held if expr.prim == "held" else np.where(held, inside, 0)
        case "dropout_keep" if "cut" in dict(expr.attrs):
            axis = int(str(expr.attr("cut")))
            shape = list(args[0].shape)
            shape[axis] *= ranks
            whole = meanings["dropout_keep"](expr, context, np.zeros(shape, args[0].dtype))
            return np.split(whole, ranks, axis)[rank]
        case _:
            return meanings[expr.prim](expr, context, *args)


def split(whole: Array, state: State, ranks: int, random: np.random.Generator) -> list[Array]:
    """Parts of a whole in a state; of a sum, random terms."""
    match state.kind:
        case "S":
            return np.split(whole, ranks, state.axis)
        case "P":
            terms = [random.standard_normal(whole.shape) for _ in range(ranks - 1)]
            return [*terms, whole - sum(terms, np.zeros_like(whole))]
        case _:
            return [whole] * ranks


def join(parts: Sequence[Array], state: State) -> Array:
    """The whole of parts; ValueError where ranks that should agree do not."""
    match state.kind:
        case "S":
            return np.concatenate(parts, state.axis)
        case "P":
            return np.asarray(np.sum(np.stack(parts), 0))
        case "M":
            return np.asarray(np.max(np.stack(parts), 0))
        case _:
            if any(not np.array_equal(parts[0], part, equal_nan=True) for part in parts):
                raise ValueError("ranks that should hold the same do not")
            return parts[0]
