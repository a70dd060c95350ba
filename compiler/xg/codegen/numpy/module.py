"""A program as a module in NumPy."""

from __future__ import annotations

from xg.codegen.emit.module import emit as emit_module
from xg.codegen.numpy.dialect import NUMPY
from xg.ir.graph import Program


def emit(program: Program, derived: Program | None = None, *, kernels: bool = False) -> str:
    """The source of the module, of fused graphs with the kernels of the backend."""
    assert derived is None
    return emit_module(program, NUMPY, kernels=kernels)
