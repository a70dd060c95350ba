"""Mesh axes that a move goes over: one, or several as one, ``N_G*N_T``."""

from __future__ import annotations

from collections.abc import Iterable

from xg.ir.dim import Dim, product, symbol


def joined_axes(axes: Iterable[str]) -> str:
    """Several mesh axes as one, the outermost first: ``N_G*N_T``."""
    return "*".join(axes)


def axes_over(over: str) -> tuple[str, ...]:
    """The mesh axes over which a move goes; `joint` the other way round."""
    return tuple(over.split("*"))


def ranks_over(over: str) -> Dim:
    """How many ranks a move goes over."""
    return product(symbol(axis) for axis in axes_over(over))
