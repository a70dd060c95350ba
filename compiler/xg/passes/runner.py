"""Passes as values, and the one place where passes follow each other.

A pass takes a program and returns another; a pipeline is a tuple of passes (`xg.passes.pipelines`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Program
from xg.ir.verify import BrokenProgram, verify

VERIFY = "XG_VERIFY"  # the variable that has every pass verified


@dataclass(frozen=True, slots=True)
class Pass:
    """A named step of compilation. `says` completes the sentence "This pass …"."""

    name: str
    says: str
    run: Callable[[Program], Program]


@dataclass(frozen=True, slots=True)
class History:
    """The programs of one compilation: the first, and one after each pass."""

    stages: tuple[tuple[str, Program], ...]

    def __repr__(self) -> str:
        return f"<History: {', '.join(name for name, _ in self.stages)}>"

    @property
    def result(self) -> Program:
        """The program after the last pass."""
        return self.stages[-1][1]

    def after(self, name: str) -> Program:
        """The program after the last pass of that name; KeyError if none ran."""
        return dict(self.stages)[name]

    def then(self, pipeline: tuple[Pass, ...]) -> History:
        """The history continued by further passes; the program is verified after each.

        Raises BrokenProgram, naming the pass, where `XG_VERIFY` is set and a program breaks a rule
        of the IR.
        """
        stages = [*self.stages]
        verified: Program | None = None
        for each in pipeline:
            program = each.run(stages[-1][1])
            if os.environ.get(VERIFY):
                _verify(program, each.name, verified)
                verified = program
            stages.append((each.name, program))
        return History(tuple(stages))


def run(pipeline: tuple[Pass, ...], program: Program, start: str = "infer") -> History:
    """Run the passes of a pipeline; `start` names the program that it begins with."""
    return History(((start, program),)).then(pipeline)


def _verify(program: Program, name: str, verified: Program | None) -> None:
    try:
        verify(program, verified)
    except BrokenProgram as broken:
        raise BrokenProgram(f"after the pass {name}:\n{broken}") from None
