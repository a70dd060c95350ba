"""A parallel program against that of one device over the integers modulo primes: exactly equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

import xg_runtime.ranks as ranks
from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import IRProgram
from xg.sharding.local import cuts
from xg.verify.first_edge import Edges, compare_edges
from xg.verify.rank_comparison import gather_shards
from xg.verify.reference.evaluate import Mesh, NumberSystem
from xg.verify.reference.interpret import Record
from xg.verify.reference.modular.meanings import modulo
from xg.verify.reference.modular.residues import Undefined
from xg.verify.reference.modular.run import Outcome, run_drawn, run_recorded
from xg_runtime.errors import RankError


@dataclass(frozen=True, slots=True)
class Exact:
    """How many edges agree modulo a prime, and the first difference, None where there is none."""

    prime: int
    arrays: int
    edges: int
    first: str | None


def exactly(
    one: IRProgram, many: IRProgram, prime: int, seed: int, arithmetic: NumberSystem | None = None
) -> Exact:
    """Both passes of both programs on random residues, compared edge by edge.

    `arithmetic` may be one for the ranks with a planted error. Raises Undefined where the program
    of one device asks for a number that does not exist, as the inverse of 0, however it is drawn.
    """
    inputs, _ = run_drawn(one, prime, seed)
    outcome, record = run_recorded(one, inputs)
    where = cuts(many)

    def rank() -> tuple[Outcome, Record]:
        mine = inputs.each(lambda arrays: ranks.local_shards(arrays, where))
        return run_recorded(many, mine, cast(Mesh, ranks), arithmetic)

    arrays = len(outcome.outputs) + len(outcome.gradients)
    try:
        outcomes = ranks.simulate(many.mesh, rank)
    except RankError as error:
        if isinstance(error.__cause__, Undefined):
            return Exact(prime, arrays, 0, str(error))
        raise
    edges = _edges(one, record, many, [each for _, each in outcomes], prime)
    first = edges.first or first_result(outcome, [each for each, _ in outcomes], many)
    return Exact(prime, arrays, edges.count, first)


def _edges(
    one: IRProgram, record: Record, many: IRProgram, records: list[Record], prime: int
) -> Edges:
    add = modulo(prime).add
    return compare_edges(one, record, many, records, np.array_equal, add)


def first_result(alone: Outcome, together: Sequence[Outcome], many: IRProgram) -> str | None:
    """The first output or gradient that differs, reassembled from all ranks."""
    where = cuts(many)
    pairs = [("", alone.outputs, [each.outputs for each in together])]
    pairs += [("d", alone.gradients, [each.gradients for each in together])]
    for prefix, expected, arrays in pairs:
        for name in dict.fromkeys([*expected, *arrays[0]]):
            if name not in expected or any(name not in each for each in arrays):
                return f"{prefix}{name} is missing"
            parts = [each[name] for each in arrays]
            whole = gather_shards(parts, where.get(name, ()), many.mesh)
            if whole.unlike is not None or not np.array_equal(whole.array, expected[name]):
                return f"{prefix}{name}"
    return None
