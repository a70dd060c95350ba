"""The tables of kernels name operators that there are, and functions that their files have."""

from __future__ import annotations

import pytest

from xg import ops
from xg.codegen.emit.dialect import Kernels
from xg.codegen.numpy.dialect import NUMPY
from xg.codegen.torch.dialect import TORCH
from xg.passes import ring
from xg_kernels.fuse import grouped_attention
from xg_kernels.fuse.patterns import fusions
from xg_kernels.numpy import kernel_table as numpy_table
from xg_kernels.torch import kernel_table as torch_table

OPERATORS = {
    *(op.name for op in ops.table().values()),
    *(fusion.op.name for fusion in fusions()),
    grouped_attention.OP.name,
    grouped_attention.LOCAL.name,
    ring.OP.name,
}
TABLES = {
    "numpy, always": NUMPY.always,
    "numpy": numpy_table.KERNELS,
    "torch, always": TORCH.always,
    "torch": torch_table.KERNELS,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_line_names_an_operator_and_a_function(table: Kernels | None) -> None:
    """Another name would be no error: its kernel would never be taken."""
    assert table
    assert table.table
    for kernel in table.table:
        assert kernel.operator.removeprefix("gradient of ") in OPERATORS, kernel
        assert kernel.function in table.names(), kernel
