"""The tables of kernels name operators that there are, and functions that their files have."""

from __future__ import annotations

import pytest

from xg import ops
from xg.codegen.emit.dialect import Kernels
from xg.codegen.numpy.dialect import NUMPY
from xg.codegen.torch.dialect import TORCH
from xg.passes import ring
from xg_kernels import grouped_attention
from xg_kernels.fuse import fusions
from xg_kernels.kernel_tables import NUMPY_KERNELS, TORCH_KERNELS

OPERATORS = {
    *(op.name for op in ops.table().values()),
    *(fusion.op.name for fusion in fusions()),
    grouped_attention.OP.name,
    grouped_attention.LOCAL.name,
    ring.OP.name,
}
TABLES = {
    "numpy, always": NUMPY.always,
    "numpy": NUMPY_KERNELS,
    "torch, always": TORCH.always,
    "torch": TORCH_KERNELS,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_line_names_an_operator_and_a_function(table: Kernels | None) -> None:
    """Another name would be no error: its kernel would never be taken."""
    assert table
    assert table.table
    for kernel in table.table:
        assert kernel.operator.removeprefix("gradient of ") in OPERATORS, kernel
        assert kernel.function in table.names(), kernel
