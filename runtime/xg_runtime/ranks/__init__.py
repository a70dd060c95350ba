"""Programs of many ranks: the functions of rank code, and the meshes that run it.

Rank code is one program that every rank runs. It names axes of the mesh and knows nothing of how
the ranks are made:

    from xg_runtime.ranks import all_reduce, shard_slice, simulate

    def step():                                # runs once on every rank
        Y = shard_slice(X, "N_T", -1) @ shard_slice(W, "N_T", -2)
        return all_reduce(Y, "N_T")

    results = simulate({"N_T": 2}, step)       # in rank order

Importing this package imports NumPy, and torch only where ranks are processes.
"""

from xg_runtime.held import Held
from xg_runtime.ranks.collectives import (
    Handle,
    all_gather,
    all_reduce,
    all_reduce_max,
    all_to_all,
    reduce_scatter,
    shift,
    start_all_gather,
    start_all_reduce,
    start_all_reduce_max,
    start_all_to_all,
    start_reduce_scatter,
    start_shift,
)
from xg_runtime.ranks.comm_counters import CommCounters, Count
from xg_runtime.ranks.gathered import Gathered
from xg_runtime.ranks.local import (
    first_rank_only,
    number,
    owns_index,
    pad_from_shard,
    rank,
    shard_slice,
    size,
    to_local_index,
)
from xg_runtime.ranks.mesh import Mesh, check_mesh, current
from xg_runtime.ranks.parts import (
    Cuts,
    gather_shard,
    gather_shards,
    global_shape,
    local_shard,
    local_shards,
    mesh_places,
)
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
    "shift",
    "start_shift",
    "Handle",
    "shard_slice",
    "pad_from_shard",
    "first_rank_only",
    "owns_index",
    "to_local_index",
    "number",
    "local_shard",
    "local_shards",
    "mesh_places",
    "gather_shard",
    "gather_shards",
    "global_shape",
    "Cuts",
    "rank",
    "size",
    "Mesh",
    "current",
    "check_mesh",
    "SimulatedMesh",
    "simulate",
    "Gathered",
    "Held",
    "Sums",
    "CommCounters",
    "Count",
]
