"""The additions of kernels to xg."""

from __future__ import annotations

from xg.packages import Package

PACKAGE = Package(
    "xg_kernels",
    "--kernels: fused operators, and code written by hand",
    services={
        "pipelines": "xg_kernels.pipelines:pipelines",
        "kernels": "xg_kernels.kernel_tables:kernels",
        "fused_operators": "xg_kernels.kernel_tables:fused_operators",
    },
)
