"""The program of one device behind a parallel one."""

from __future__ import annotations

from xg import driver
from xg.passes.pipelines import SINGLE_AROUND
from xg.passes.runner import run


def single_with_rings(program: driver.Program) -> driver.Program:
    """A compiled program on one device with the operators that a plan chooses, as rings have.

    On one device they are what they replace, in reals; over residues exp has no properties, so
    only like is compared with like.
    """
    if program.single_device is None:
        return program
    return driver.Program(run(SINGLE_AROUND, program.single_device).result, program.project)
