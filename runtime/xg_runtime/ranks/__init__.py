"""Programs of many ranks: what rank code calls, and where it runs.

Rank code is one program that every rank runs. It names axes of the mesh and knows nothing of how
the ranks are made:

    from xg_runtime.ranks import all_reduce, own, simulate

    def step():                                # runs once on every rank
        return all_reduce(own(X, "N_T", -1) @ own(W, "N_T", -2), "N_T")

    results = simulate({"N_T": 2}, step)       # in rank order

Importing this package imports NumPy, and torch only where ranks are processes.
"""

from xg_runtime.ranks.collectives import (
    Handle,
    all_gather,
    all_reduce,
    all_reduce_max,
    all_to_all,
    reduce_scatter,
    start_all_gather,
    start_all_reduce,
    start_all_reduce_max,
    start_all_to_all,
    start_reduce_scatter,
)
from xg_runtime.ranks.comm_counters import Count, Tally
from xg_runtime.ranks.local import held, number, once, own, rank, size, spread, within
from xg_runtime.ranks.mesh import Mesh, current
from xg_runtime.ranks.parts import Cuts, part_of, parts, places, whole, whole_shape, wholes
from xg_runtime.ranks.simulated import SimulatedMesh, simulate
from xg_runtime.ranks.sums import Sums

__all__ = [
    "all_reduce",
    "all_reduce_max",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "start_all_reduce",
    "start_all_reduce_max",
    "start_all_gather",
    "start_reduce_scatter",
    "start_all_to_all",
    "Handle",
    "own",
    "spread",
    "once",
    "held",
    "within",
    "number",
    "part_of",
    "parts",
    "places",
    "whole",
    "wholes",
    "whole_shape",
    "Cuts",
    "rank",
    "size",
    "Mesh",
    "current",
    "SimulatedMesh",
    "simulate",
    "Sums",
    "Tally",
    "Count",
]
