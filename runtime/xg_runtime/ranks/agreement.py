"""Whether all processes are about to begin the same collective.

torch's backends do not ask: ranks that call different things get wrong numbers, an abort in C++, or
wait until a timeout. One small all-gather of each rank's call finds the difference in time, and
reports it as the simulated mesh does. TORCH_DISTRIBUTED_DEBUG=DETAIL finds the same, but not across
the axes of a mesh, and names neither the axis nor the collective's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from xg_runtime.ranks.backend import all_gather
from xg_runtime.ranks.disagreement import Progress, differing, ended_early
from xg_runtime.ranks.grid import Grid

_dist: Any = dist
_ROOM: Final = 256  # bytes in which a rank says what it calls


@dataclass(frozen=True, slots=True)
class Agreement:
    """A group of all ranks, on the CPU, that is used for nothing else."""

    group: object

    def check(self, grid: Grid, number: int, call: str, timeout: float) -> None:
        """Raise RankError unless all ranks come here with the same call; "" is the end."""
        ranks = [
            Progress(rank, number + 1, text) for rank, text in enumerate(self._all(call, timeout))
        ]
        ended = [stand.rank for stand in ranks if not stand.call]
        waiting = [stand for stand in ranks if stand.call]
        if ended and waiting:
            raise ended_early(grid, ended[0], number, waiting[0])
        for stand in ranks:
            if stand.call != ranks[0].call:
                raise differing(grid, stand, ranks[0])

    def _all(self, call: str, timeout: float) -> list[str]:
        """The calls of every rank."""
        mine = torch.frombuffer(bytearray(call.encode()[:_ROOM].ljust(_ROOM)), dtype=torch.uint8)
        everyone = torch.empty(_dist.get_world_size(self.group) * _ROOM, dtype=torch.uint8)
        work = all_gather(everyone, mine, group=self.group, async_op=True)
        work.wait(timedelta(seconds=timeout))
        said = everyone.numpy().tobytes()
        return [
            said[start : start + _ROOM].decode("utf-8", "replace").rstrip()
            for start in range(0, len(said), _ROOM)
        ]
