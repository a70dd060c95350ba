"""Becoming one rank of many: under `torchrun`, on one machine or several, or under our launcher.

    with joined({"N_D": 2, "N_T": 2}, {"plan": hash}) as mesh:
        ...                                             # rank code, on this process's rank

Which rank this is says the environment, as torchrun sets it: RANK, WORLD_SIZE, LOCAL_RANK, and
MASTER_ADDR and MASTER_PORT where the ranks meet.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from xg_runtime.errors import InputError
from xg_runtime.ranks.backend import make_group
from xg_runtime.ranks.folder import Heartbeat, NoHeartbeat
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.handshake import PATIENCE, check_world, rendezvous, shake_hands
from xg_runtime.ranks.process_mesh import Agreement, ProcessMesh, Watched
from xg_runtime.ranks.terms import Terms

__all__ = ["joined"]

_dist: Any = dist


@contextlib.contextmanager
def joined(
    sizes: Mapping[str, int],
    facts: Mapping[str, str],
    terms: Terms | None = None,
    record: Heartbeat | NoHeartbeat | None = None,
) -> Generator[ProcessMesh]:
    """Join the other ranks, be their mesh's rank inside, and leave with them.

    `facts` must be the same everywhere. Raises InputError where the number of processes is not that
    of the mesh, RankError where a rank has other facts, CollectiveFailed where one does not come.
    """
    terms = terms or Terms()
    grid = Grid(dict(sizes))
    rank, world = _place()
    check_world(grid, world)
    store, again = _meet(terms, grid, rank)
    shake_hands(store, grid, rank, dict(facts) | _own_facts(grid, terms))
    if terms.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    timeout = timedelta(seconds=terms.timeout)
    backend = "nccl" if terms.device == "cuda" else "gloo"
    _dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    agreement = Agreement.of_grid(grid, terms.timeout) if terms.checked else None
    watched = Watched(terms.timeout, record or NoHeartbeat(), agreement)
    devices, joint = _devices(grid, rank, terms), _joint(terms)
    with ProcessMesh(devices, watched, again=again, joint=joint) as mesh:
        yield mesh
        mesh.finish()
    _dist.destroy_process_group()  # not after a failure: it would wait for those who are gone


def _place() -> tuple[int, int]:
    """This process's rank, and how many there are."""
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError) as error:
        raise InputError("RANK and WORLD_SIZE are not set: start this with torchrun") from error


def _meet(terms: Terms, grid: Grid, rank: int) -> tuple[Any, bool]:
    """The store that the ranks of this start share, and whether there was a start before it."""
    patience = timedelta(seconds=PATIENCE)
    if terms.store is not None:
        store = _dist.FileStore(str(terms.store), grid.count)
        store.set_timeout(patience)
        return store, False
    store, _, _ = next(_dist.rendezvous("env://", rank, grid.count, timeout=patience))
    store.set_timeout(patience)
    start = rendezvous(_dist.PrefixStore("xg", store), grid, rank)
    again = start.again or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    return _dist.PrefixStore(f"xg/{start.name}", store), again


def _own_facts(grid: Grid, terms: Terms) -> dict[str, str]:
    """Properties of this process that must be the same on all ranks."""
    sizes = ", ".join(f"{axis} = {size}" for axis, size in grid.sizes.items())
    made = terms.communicators
    return {
        "mesh": sizes,
        "torch": torch.__version__,
        "device": terms.device,
        "checking": str(terms.checked),
        "communicators": ", ".join(("all",) if made is None else made),
    }


def _joint(terms: Terms) -> tuple[str, ...] | None:
    """The communicators over several axes; a DeviceMesh has those over one."""
    made = terms.communicators
    return None if made is None else tuple(over for over in made if "*" in over)


def _devices(grid: Grid, rank: int, terms: Terms) -> DeviceMesh:
    """The mesh as torch knows it; its own way of making groups would wait half an hour."""
    sizes = dict(grid.sizes) or {"one": 1}
    whole = Grid(sizes)
    ours = [
        make_group(whole.group(rank, axis), axis, terms.device, terms.timeout) for axis in sizes
    ]
    numbers = torch.arange(whole.count).view(*sizes.values())
    from_group: Any = DeviceMesh.from_group
    if len(ours) == 1:
        return from_group(ours[0], terms.device, mesh_dim_names=tuple(sizes))
    return from_group(ours, terms.device, numbers, mesh_dim_names=tuple(sizes))
