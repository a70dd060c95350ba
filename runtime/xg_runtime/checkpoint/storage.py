"""Define the writer of a checkpoint's arrays; each form of checkpoint has one.

safetensors    a file of parameters and one of slots for each rank: `part_files`
dcp            a checkpoint of torch.distributed.checkpoint, which torch reads: `dcp`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from xg_runtime.checkpoint.manifest import Json
from xg_runtime.checkpoint.parts import ShardLayout
from xg_runtime.checkpoint.state import Checkpoint
from xg_runtime.ranks.grid import Grid

Layouts: TypeAlias = Mapping[str, ShardLayout]


class Storage(Protocol):
    """A writer; `params` and `slots` are the layouts of all whole tensors."""

    def write(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, grid: Grid, rank: int
    ) -> Json:
        """Write the part of a rank; return, as JSON, what `finish` needs of it. Raises OSError."""
        ...

    def finish(
        self, folder: Path, part: Checkpoint, params: Layouts, slots: Layouts, said: Sequence[Json]
    ) -> dict[str, str]:
        """Complete what all ranks have written; return the hashes of all files by their names.

        `said` is what `write` returned on every rank. Raises OSError.
        """
        ...
