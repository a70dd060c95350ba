"""Compare each gradient that a program takes in its forward pass with differences of its loss.

The body of a ``grad[x](loss)`` is derived, and every backend computes it. So neither the gradients
of the program nor a comparison of backends would notice a body that is the gradient of something
else. Here x moves, and the interpreter computes the steps from x to the loss again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.graph import Apply, IRProgram, Value
from xg.verify.reference.evaluate import Stopped
from xg.verify.reference.interpret import Interpreter, Record
from xg_runtime import gradcheck
from xg_runtime.module import Array, Arrays


def inner_rows(
    program: IRProgram, params: Arrays, inputs: Arrays, seed: int
) -> tuple[gradcheck.Row, ...]:
    """A row for each variable of each `grad`; if a graph is called often, of its first call."""
    takers = set(_takers(program))
    if not takers:
        return ()
    _, record = Interpreter(program, params, seed).forward(inputs)
    rows: list[gradcheck.Row] = []
    for run in record.runs():
        if run.graph.key in takers:
            takers.remove(run.graph.key)
            steps = (step for step in run.graph.steps if isinstance(step, Apply))
            inner = (_InnerGradient(program, params, seed, run, s) for s in steps if _is_taken(s))
            rows += (row for each in inner for row in each.rows())
    return tuple(rows)


def takes_gradients(program: IRProgram) -> bool:
    """Whether the forward pass has a `grad`, though nothing outside may have a gradient."""
    return any(True for _ in _takers(program))


def _takers(program: IRProgram) -> Iterator[str]:
    """The keys of the graphs that have a `grad`."""
    return (key for key, graph in program.graphs.items() if any(map(_is_taken, graph.steps)))


def _is_taken(step: object) -> bool:
    return isinstance(step, Apply) and step.op.differentiates > 0


@dataclass(frozen=True, slots=True)
class _InnerGradient:
    """One `grad` in one run of its graph."""

    program: IRProgram
    params: Arrays
    seed: int
    run: Record
    step: Apply

    def rows(self) -> Iterator[gradcheck.Row]:
        """Yield the comparison for each variable; the others follow it, if they depend on it."""
        loss, *others = self.step.inputs
        of = loss.name or "…"
        for value, made in zip(others, self.step.outputs, strict=False):
            found = self._report(loss, value, made)
            yield from (replace(row, name=f"grad[{value.name}]({of})") for row in found.rows)

    def _report(self, loss: Value, variable: Value, made: Value) -> gradcheck.Report:
        start, noted = {"x": self.run.values[variable]}, Stopped()

        def values(arrays: Arrays, stopped: Stopped) -> Mapping[Value, Array]:
            runner = Interpreter(self.program, self.params, self.seed, stopped=stopped)
            return runner.rerun(self.run, {variable: arrays["x"]}, self.step).values

        def function(arrays: Arrays) -> Arrays:
            return {"loss": values(arrays, noted.replayed())[loss]}

        def gradient(arrays: Arrays, d_outputs: Arrays) -> Arrays:
            return {"x": d_outputs["loss"] * values(arrays, noted.replayed())[made]}

        values(start, noted)
        zeros = {} if self.run.values[made].any() else {"x": "zero at this draw"}
        return gradcheck.check(function, gradient, start, zeros=zeros, seed=self.seed)
