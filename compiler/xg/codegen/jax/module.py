"""A program as a module in JAX."""

from __future__ import annotations

from xg.codegen.emit.module import emit as emit_module
from xg.codegen.jax.dialect import JAX
from xg.ir.graph import Program


def emit(program: Program, derived: Program | None = None, *, kernels: bool = False) -> str:
    """The source of the module; fused operators are functions too, and XLA compiles them."""
    assert derived is None
    return emit_module(program, JAX, kernels=kernels)
