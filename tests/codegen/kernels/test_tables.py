"""The tables of kernels name operators that there are, and functions that their files have."""

from __future__ import annotations

import pytest

from xg import ops
from xg.codegen.emit.kernel import Kernels
from xg.codegen.numpy import kernel_table as numpy_table
from xg.codegen.torch import kernel_table as torch_table
from xg.passes.fuse import grouped_attention, ring_attention
from xg.passes.fuse.patterns import fusions

OPERATORS = {
    *(op.name for op in ops.table().values()),
    *(fusion.op.name for fusion in fusions()),
    grouped_attention.OP.name,
    grouped_attention.LOCAL.name,
    ring_attention.OP.name,
}
TABLES = {
    "numpy, always": numpy_table.ALWAYS,
    "numpy": numpy_table.KERNELS,
    "torch, always": torch_table.ALWAYS,
    "torch": torch_table.KERNELS,
}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_line_names_an_operator_and_a_function(table: Kernels) -> None:
    """Another name would be no error: its kernel would never be taken."""
    assert table.table
    for kernel in table.table:
        assert kernel.operator.removeprefix("gradient of ") in OPERATORS, kernel
        assert kernel.function in table.names(), kernel
