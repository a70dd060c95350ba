"""Whether all processes are about to begin the same collective.

torch's backends do not ask: ranks that call different things get wrong numbers, an abort in C++, or
wait until a timeout. One small all-gather of each rank's call finds the difference in time, and
reports it as the simulated mesh does. TORCH_DISTRIBUTED_DEBUG=DETAIL finds the same, but not across
the axes of a mesh, and names neither the axis nor the collective's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from xg_runtime.ranks.backend import all_gather, make_group
from xg_runtime.ranks.disagreement import Progress, calling, differing, ended_early
from xg_runtime.ranks.grid import Grid

_dist: Any = dist
_ROOM: Final = 256  # bytes in which a rank says what it calls


@dataclass(frozen=True, slots=True)
class Agreement:
    """Compare the calls of ranks that run one program, in a CPU group used for this only."""

    group: object
    members: Sequence[int]

    @classmethod
    def of_grid(cls, grid: Grid, timeout: float) -> Agreement:
        """Create the group of all ranks."""
        members = range(grid.count)
        return cls(make_group(members, "all ranks", "cpu", timeout, "gloo"), members)

    @classmethod
    def of_stage(cls, grid: Grid, rank: int, axis: str, timeout: float) -> Agreement | None:
        """Create the group of a rank's stage on `axis`; None if the mesh has no other axis.

        All ranks have to come here at the same time, each for its own stage.
        """
        beside = "*".join(name for name in grid.sizes if name != axis)
        if not beside:
            return None
        members = grid.group(rank, beside)
        return cls(make_group(members, f"calls over {beside}", "cpu", timeout, "gloo"), members)

    def check(self, grid: Grid, number: int, call: str, timeout: float) -> None:
        """Raise RankError unless all members come here with the same call; "" is the end."""
        mine = f"{call}\n{calling()}" if call else ""
        said = zip(self.members, self._all(mine, timeout), strict=True)
        ranks = [Progress(r, number + 1, *text.split("\n")[:2]) for r, text in said]
        ended = [stand.rank for stand in ranks if not stand.call]
        waiting = [stand for stand in ranks if stand.call]
        if ended and waiting:
            raise ended_early(grid, ended[0], number, waiting[0])
        for stand in ranks:
            if stand.call != ranks[0].call:
                raise differing(grid, stand, ranks[0])

    def _all(self, call: str, timeout: float) -> list[str]:
        """The calls of every member, and the lines of code that make them."""
        mine = torch.frombuffer(bytearray(call.encode()[:_ROOM].ljust(_ROOM)), dtype=torch.uint8)
        everyone = torch.empty(_dist.get_world_size(self.group) * _ROOM, dtype=torch.uint8)
        work = all_gather(everyone, mine, group=self.group, async_op=True)
        work.wait(timedelta(seconds=timeout))
        said = everyone.numpy().tobytes()
        return [
            said[start : start + _ROOM].decode("utf-8", "replace").rstrip()
            for start in range(0, len(said), _ROOM)
        ]
