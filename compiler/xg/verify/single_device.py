"""The program of one device behind a parallel one."""

from __future__ import annotations

from xg import driver
from xg.passes.pipelines import SINGLE, SINGLE_AROUND
from xg.passes.runner import run


def single(program: driver.Program) -> driver.Program:
    """A compiled program on one device, with its backward pass; itself if it was for one."""
    if program.single_device is None:
        return program
    return driver.Program(run(SINGLE, program.single_device).result, program.project)


def single_with_rings(program: driver.Program) -> driver.Program:
    """The same with the operators that a plan chooses, such as attention around a ring.

    On one device they are what they replace, in reals; over residues exp has no properties, so
    only like is compared with like.
    """
    if program.single_device is None:
        return program
    return driver.Program(run(SINGLE_AROUND, program.single_device).result, program.project)
