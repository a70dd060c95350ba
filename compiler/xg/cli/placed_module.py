"""Generated modules on NumPy arrays, on the device that a command names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xg.codegen.backend import find
from xg.driver import Program
from xg_runtime.generate import StepModule
from xg_runtime.module import Module


def placed(
    program: Program,
    backend: str | None,
    where: Mapping[str, str],
    *,
    kernels: bool,
    dtype: str | None = None,
) -> Module:
    """The module of both passes; `where` is what `backend_argument.where` says."""
    code = program.load(backend, kernels=kernels)
    return cast(Module, find(backend).on_arrays(code, dtype, **where))


def placed_step(
    step: Program, backend: str | None, where: Mapping[str, str], *, kernels: bool
) -> StepModule:
    """The module of the step of a decoder."""
    return cast(
        StepModule, find(backend).step_on_arrays(step.load(backend, kernels=kernels), **where)
    )
