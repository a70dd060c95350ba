"""The program of one device behind a parallel one."""

from __future__ import annotations

from xg import driver
from xg.passes.pipelines import SINGLE
from xg.passes.runner import run


def single(program: driver.Program) -> driver.Program:
    """A compiled program on one device, with its backward pass; itself if it was for one."""
    if program.single_device is None:
        return program
    return driver.Program(run(SINGLE, program.single_device).result, program.project)
