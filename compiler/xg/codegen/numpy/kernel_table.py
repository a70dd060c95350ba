"""Which operator each kernel of NumPy computes, and for which of its uses."""

from __future__ import annotations

from pathlib import Path

from xg.codegen.emit.kernel_tables import kernel_tables
from xg.codegen.numpy.spelling import SUPPORT

ALWAYS, KERNELS = kernel_tables(Path(__file__).parent, SUPPORT)
