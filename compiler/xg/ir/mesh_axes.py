"""Mesh axes that a move goes over: one, or several as one, ``N_G*N_T``.

Which part of an axis a rank has is its place along the mesh axis, unless the plan says `zigzag`:
then rank i of N has the chunks i and 2N - 1 - i of 2N. Types know nothing of this; the primitives
and the cuts of one rank do, by the name of the mesh axis: ``N_S zigzag``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from xg.ir.dim import Dim, product, symbol

ZIGZAG: Final = " zigzag"  # as `xg_runtime.ranks.order` spells it


def ordered_axis(axis: str, zigzag: Container[str]) -> str:
    """A mesh axis with the order of its ranks, given those in zigzag."""
    return axis + ZIGZAG if axis in zigzag else axis


def axis_of(over: str) -> str:
    """The mesh axis, or several, without the order of its ranks."""
    return over.removesuffix(ZIGZAG)


def is_zigzag(over: str) -> bool:
    """Whether each rank has two chunks, one from each end."""
    return over.endswith(ZIGZAG)


def joined_axes(axes: Iterable[str]) -> str:
    """Several mesh axes as one, the outermost first: ``N_G*N_T``."""
    return "*".join(axes)


def axes_over(over: str) -> tuple[str, ...]:
    """The mesh axes over which a move goes; `joint` the other way round."""
    return tuple(axis_of(over).split("*"))


def ranks_over(over: str) -> Dim:
    """How many ranks a move goes over."""
    return product(symbol(axis) for axis in axes_over(over))
