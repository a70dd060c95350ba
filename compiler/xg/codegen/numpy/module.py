"""A program as a module in NumPy."""

from __future__ import annotations

from xg.codegen.emit.module import emit as emit_module
from xg.codegen.numpy.dialect import NUMPY
from xg.ir.graph import Program


def emit(program: Program, *, kernels: bool = False) -> str:
    """The source of the module, of fused graphs with the kernels of the backend."""
    return emit_module(program, NUMPY, kernels=kernels)
