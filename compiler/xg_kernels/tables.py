"""The kernels of each backend, and the operators that passes put in for them."""

from __future__ import annotations

from xg.codegen.emit.dialect import Kernels
from xg.ir.op import Op
from xg_kernels.fuse import grouped_attention
from xg_kernels.fuse.patterns import fusions
from xg_kernels.numpy.kernel_table import KERNELS as IN_NUMPY
from xg_kernels.torch.kernel_table import KERNELS as IN_TORCH

_TABLES = {"NumPy": IN_NUMPY, "torch": IN_TORCH}


def kernels(title: str) -> Kernels | None:
    """Return the kernels of a backend; None if it has only expressions."""
    return _TABLES.get(title)


def fused_operators() -> tuple[Op, ...]:
    """Return the operators that no file can write, for fused patterns and grouped heads."""
    ops = (fusion.op for fusion in fusions())
    return (*ops, grouped_attention.OP, grouped_attention.LOCAL)
