"""One rank of a mesh whose others do not exist: torch's "fake" process group sends nothing."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from math import prod

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from xg_runtime.ranks.process_mesh import ProcessMesh


@contextmanager
def rank_of(
    mesh: Mapping[str, int],
    number: int,
    device: str = "meta",
    joint: Sequence[str] | None = None,
) -> Generator[ProcessMesh]:
    """Be one rank of a mesh, on devices of a kind, with some communicators over several axes."""
    store = FakeStore()
    dist.init_process_group("fake", rank=number, world_size=prod(mesh.values()), store=store)
    try:
        devices = init_device_mesh(device, tuple(mesh.values()), mesh_dim_names=tuple(mesh))
        with ProcessMesh(devices, joint=joint) as found:
            yield found
            found.check_pending()
    finally:
        dist.destroy_process_group()
