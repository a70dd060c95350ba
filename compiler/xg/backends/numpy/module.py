"""A program as a module in NumPy."""

from __future__ import annotations

from xg.backends.numpy.dialect import NUMPY
from xg.emit.module import emit as emit_module
from xg.graph import Program


def emit(program: Program) -> str:
    """The source of the module."""
    return emit_module(program, NUMPY)
