"""Differences of a program in which gradients end: what is stopped is a constant of the run.

So is a route, the places of the largest: where it changes there is no derivative.

Generated code computes a stopped value again for other parameters, so differences of it would see
through. Here the interpreter computes the outputs, with the stopped values of the first run; the
gradients are those of the generated code.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.graph import Apply, Program
from xg.verify.reference.body_cache import BodyCache
from xg.verify.reference.evaluate import Stopped
from xg.verify.reference.interpret import Interpreter
from xg_runtime.module import Arrays, Module, Saved


def stops(program: Program) -> bool:
    """Whether a gradient ends at some step of the forward pass."""
    return any(
        expr.prim in ("stop", "top")
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply)
        for expr in step.body(graph.types).order()
    )


@dataclass(frozen=True)
class StoppedModule:
    """A module whose outputs are computed with the stopped values of one run."""

    program: Program
    module: Module
    stopped: Stopped
    bodies: BodyCache

    @classmethod
    def at(
        cls, program: Program, module: Module, params: Arrays, inputs: Arrays, seed: int
    ) -> StoppedModule:
        """The module around a point, with the dropout of a seed."""
        stopped, bodies = Stopped(), BodyCache()
        Interpreter(program, params, seed, traces=bodies, stopped=stopped).forward(inputs)
        return cls(program, module, stopped, bodies)

    def init(self, seed: int = 0, dtype: DTypeLike = np.float32) -> Arrays:
        """Return the parameters of the module."""
        return self.module.init(seed, dtype)

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        """Return the outputs with what is stopped held, and what `backward` runs again."""
        replayed = self.stopped.replayed()
        runner = Interpreter(self.program, params, seed, traces=self.bodies, stopped=replayed)
        return runner.forward(inputs)[0], (inputs, seed)

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        """Return the gradients of the module."""
        inputs, seed = saved
        _, own = self.module.forward(params, inputs, seed=seed)
        return self.module.backward(params, own, d_outputs)
