"""Which operator each kernel of NumPy computes, and for which of its uses."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xg.codegen.emit.dialect import Kernel
from xg.codegen.numpy.dialect import SUPPORT
from xg.codegen.numpy.from_torch import in_numpy
from xg_kernels.kernel_tables import kernel_table, one_group

_OWN: Final = (
    Kernel("convolution", "convolution", one_group),
    Kernel("gradient of convolution", "d_convolution", one_group),
    Kernel("gradient of convolution", "d_convolution_with_bias", one_group),
)
KERNELS: Final = kernel_table(Path(__file__).parent, SUPPORT, _OWN, spell=in_numpy)
