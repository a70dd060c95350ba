"""All ranks of one mesh axis in one process: the reference meaning of local bodies.

Every expression is computed for all ranks before the next one begins, so a collective sees the
parts of all. Plain on purpose, as `xg.verify.reference.evaluate` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import cast

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.body import topological
from xg.ir.collectives import collective_of
from xg.ir.placement import AxisState
from xg.ir.prim import Expr
from xg.verify.reference.evaluate import Context, Mesh
from xg_runtime.module import Array


def run(
    outputs: Sequence[Expr], operands: Sequence[Mapping[str, Array]], context: Context
) -> list[list[Array]]:
    """The outputs of every rank (rank, then output), given the operands of every rank."""
    ranks = range(len(operands))
    places = [replace(context, mesh=cast(Mesh, _RankPlace(r, len(ranks)))) for r in ranks]
    values: dict[int, list[Array]] = {}
    for expr in topological(outputs):
        args = [values[id(arg)] for arg in expr.args]
        if expr.prim == "operand":
            values[id(expr)] = [operands[r][str(expr.attr("name"))] for r in ranks]
        elif (record := collective_of(expr)) and not record.cuts and record.reduces:
            add = context.arithmetic.add
            whole = reduce(add if record.sums else np.maximum, args[0])
            values[id(expr)] = [whole] * len(operands)
        else:
            values[id(expr)] = [
                context.arithmetic.meanings[expr.prim](expr, place, *(arg[r] for arg in args))
                for r, place in enumerate(places)
            ]
    return [[values[id(output)][r] for output in outputs] for r in ranks]


@dataclass(frozen=True, slots=True)
class _RankPlace:
    """One rank's coordinates; `run` exchanges its messages."""

    number: int
    ranks: int

    def rank(self, over: str) -> int:
        return self.number

    def size(self, over: str) -> int:
        return self.ranks


def split(whole: Array, state: AxisState, ranks: int, random: np.random.Generator) -> list[Array]:
    """Parts of a whole in a state; of a sum, random terms."""
    match state.kind:
        case "S":
            return np.split(whole, ranks, state.axis)
        case "P":
            terms = [random.standard_normal(whole.shape) for _ in range(ranks - 1)]
            return [*terms, whole - sum(terms, np.zeros_like(whole))]
        case _:
            return [whole] * ranks


def join(parts: Sequence[Array], state: AxisState) -> Array:
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
