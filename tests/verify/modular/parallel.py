"""Programs on simulated ranks, in residues, and errors planted in what the ranks send."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import xg_runtime.ranks as ranks
from xg.ir.graph import IRProgram
from xg.ir.prim import Expr
from xg.sharding.local import cuts
from xg.verify.reference.evaluate import Context, Mesh, NumberSystem
from xg.verify.reference.residues import SUMMED, Outcome, RunInputs, Undefined, modulo, run
from xg_runtime.errors import RankError

Array = NDArray[Any]
Mistake = Callable[[Expr, Context, Array, NumberSystem], Array]

SAID = (*SUMMED, "all_reduce_max", "all_gather", "all_to_all")


def first_difference(
    many: IRProgram, given: RunInputs, expected: Outcome, arithmetic: NumberSystem | None = None
) -> str | None:
    """The first array that some rank, asking for the whole, finds other than one device does."""
    where = cuts(many)

    def rank() -> Outcome:
        mine = given.each(lambda arrays: ranks.local_shards(arrays, where))
        outcome = run(many, mine, cast(Mesh, ranks), arithmetic)
        return outcome.each(lambda arrays: ranks.gather_shards(arrays, where))

    try:
        found = ranks.simulate(many.mesh, rank)
    except RankError as error:
        if isinstance(error.__cause__, Undefined):
            return str(error)
        raise
    differences = [expected.first_difference(outcome) for outcome in found]
    return next((name for name in differences if name is not None), None)


# ---- errors -------------------------------------------------------------------------------------


@dataclass
class Planted:
    """An error planted in one of a program's collectives, in the same one on every rank."""

    prime: int
    mistake: Mistake
    place: int
    calls: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    said: str = ""
    of_zeros: bool = True  # then nothing can be seen

    @property
    def count(self) -> int:
        """How many collectives every rank has called."""
        (count,) = set(self.calls.values())
        return count

    def arithmetic(self) -> NumberSystem:
        true = modulo(self.prime)
        meanings = {name: self._meaning(name, true) for name in SAID}
        return replace(true, meanings={**true.meanings, **meanings})

    def _meaning(self, name: str, true: NumberSystem) -> Callable[..., Array]:
        def meaning(expr: Expr, context: Context, x: Array) -> Array:
            mesh = ranks.current()
            rank = tuple(mesh.rank(axis) for axis in mesh.sizes)
            number = self.calls.get(rank, 0)
            self.calls[rank] = number + 1
            if number != self.place:
                return true.meanings[name](expr, context, x)
            self.said = f"{name} over {expr.attr('over')}"
            self.of_zeros &= not x.any()
            return self.mistake(expr, context, x, true)

        return meaning


def right(expr: Expr, context: Context, x: Array, true: NumberSystem) -> Array:
    return true.meanings[expr.prim](expr, context, x)


def missing(expr: Expr, context: Context, x: Array, true: NumberSystem) -> Array:
    """Nothing is said: every rank takes what it holds for the whole, or for all parts of it."""
    if expr.prim == "reduce_scatter":
        return true.meanings["shard_slice"](expr, context, x)
    if expr.prim == "all_gather":
        return np.concatenate([x] * ranks.size(str(expr.attr("over"))), _axis(expr))
    return x


def doubled(expr: Expr, context: Context, x: Array, true: NumberSystem) -> Array:
    """The result, by now the same on every rank, is summed once more."""
    whole = right(expr, context, x, true)
    return true.meanings["all_reduce"](replace(expr, prim="all_reduce"), context, whole)


def mean(expr: Expr, context: Context, x: Array, true: NumberSystem) -> Array:
    """The mean where the sum is asked for."""
    count = np.asarray(ranks.size(str(expr.attr("over"))))
    return true.meanings["div"](expr, context, right(expr, context, x, true), count)


def largest(expr: Expr, context: Context, x: Array, true: NumberSystem) -> Array:
    """The maximum where the sum is asked for, and the other way round."""
    other = "all_reduce" if expr.prim == "all_reduce_max" else "all_reduce_max"
    whole = true.meanings[other](replace(expr, prim=other), context, x)
    if expr.prim == "all_gather":
        return missing(expr, context, whole, true)
    return (
        true.meanings["shard_slice"](expr, context, whole)
        if expr.prim == "reduce_scatter"
        else whole
    )


def elsewhere(expr: Expr, context: Context, x: Array, true: NumberSystem) -> Array:
    """Over another mesh axis of the same size, where there is one; else not at all."""
    over, sizes = str(expr.attr("over")), ranks.current().sizes
    others = [axis for axis in sizes if axis != over and sizes[axis] == sizes[over]]
    if not others:
        return missing(expr, context, x, true)
    attrs = tuple({**dict(expr.attrs), "over": others[0]}.items())
    return right(replace(expr, attrs=attrs), context, x, true)


def _axis(expr: Expr) -> int:
    return cast(int, expr.attr("axis"))
