"""How a file asks for a tensor to be placed: which mesh axes shard which of its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim

Cuts = Mapping[
    str, int
]  # mesh axis -> the axis that it cuts, counted from the end (-1 is the last)


@dataclass(frozen=True, slots=True)
class Layout:
    """The placement of a tensor as a file writes it: ``[_/N_D, D_ff/N_T, ..]``.

    For each axis its global size (None for ``_``) and the mesh axes that shard it, outermost first;
    the axes behind an `open` layout are not sharded.
    """

    dims: tuple[Dim | None, ...]
    cuts: tuple[tuple[str, ...], ...]
    open: bool = False

    def axes(self, rank: int) -> dict[str, int]:
        """The axis that each mesh axis cuts of a tensor with `rank` axes."""
        places = enumerate(self.cuts, -rank)
        return {mesh_axis: place for place, cuts in places for mesh_axis in cuts}

    def __str__(self) -> str:
        parts = [_spell(dim, cuts) for dim, cuts in zip(self.dims, self.cuts, strict=True)]
        return "[" + ", ".join([*parts, *([".."] if self.open else [])]) + "]"


def _spell(dim: Dim | None, cuts: Sequence[str]) -> str:
    whole = "_" if dim is None else str(dim)
    if not cuts:
        return whole
    if dim is not None and len(dim.terms) > 1:
        whole = f"({whole})"
    return f"{whole}/{cuts[0]}" if len(cuts) == 1 else f"{whole}/({'*'.join(cuts)})"
