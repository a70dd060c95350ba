"""The numbers of a document computed again, in float64, by the reference interpreter.

Dropout is off. Printed numbers of the document can replace computed ones, so that a claim is judged
by the numbers that the document itself continues with.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.frontend.examples.binding import BoundExample, ClaimTarget, Numbers, site_graph
from xg.ir.graph import Value
from xg.ir.loss import loss_of
from xg.ir.parameters import param_specs
from xg.ir.tensor import TensorType
from xg.verify.reference.body_cache import BodyCache
from xg.verify.reference.interpret import Edge, Interpreter, Record
from xg_runtime.module import Array, Arrays


def array(numbers: Numbers) -> Array:
    """Printed numbers as an array of float64."""
    return np.array(numbers.values, dtype=np.float64).reshape(numbers.shape)


@dataclass(frozen=True)
class Recomputation:
    """A document whose numbers can be computed: from its givens, or from what it prints."""

    document: BoundExample
    traces: BodyCache = field(default_factory=BodyCache, repr=False)

    @cached_property
    def inputs(self) -> Arrays:
        """The inputs [as the block declares them]."""
        main = self.document.program.main
        return {
            str(value.name): self._given(str(value.name), main.types[value])
            for value in main.inputs
        }

    @cached_property
    def params(self) -> Arrays:
        """The parameters by path; one that is not given is as it starts, ones or zeros."""
        arrays: Arrays = {}
        for path, param, graph, symbols in param_specs(self.document.program):
            type_ = graph.sizes.expand_type(param.type).substitute(symbols)
            if path in self.document.givens:
                arrays[path] = self._given(path, type_)
            else:
                shape = tuple(dim.evaluate(self.document.sizes) for dim in type_.shape)
                arrays[path] = np.full(shape, 1.0 if param.start == "ones" else 0.0)
        return arrays

    def edge(self, target: ClaimTarget) -> Edge:
        """Where the interpreter keeps what a claim is about."""
        if not target.gradient:
            return target.path, target.primal
        graph = site_graph(self.document.program, target.path)
        return target.path, self.document.program.backwards[graph.key].totals[target.primal]

    def run(
        self,
        overrides: Mapping[Edge, Array] | None = None,
        given: Mapping[str, Array] | None = None,
    ) -> ExampleRun:
        """One forward pass; `given` replaces inputs and parameters by full name."""
        other = given or {}
        params = {name: other.get(name, value) for name, value in self.params.items()}
        inputs = {name: other.get(name, value) for name, value in self.inputs.items()}
        interpreter = Interpreter(
            self.document.program, params, overrides=overrides or {}, traces=self.traces
        )
        with np.errstate(all="ignore"):
            outputs, record = interpreter.forward(inputs)
        return ExampleRun(self, interpreter, outputs, record)

    def _given(self, name: str, type_: TensorType) -> Array:
        values = array(self.document.givens[name])
        return values if type_.is_float else values.astype(np.int64)


@dataclass(frozen=True)
class ExampleRun:
    """One run of a document; the backward pass from its loss is made when it is asked for."""

    of: Recomputation
    interpreter: Interpreter
    outputs: Mapping[str, Array]
    record: Record

    def value(self, target: ClaimTarget) -> Array:
        """The value that a claim is about, in this run."""
        if target.gradient and target.source in self.gradients:
            return self.gradients[target.source]
        return self.at(*self.of.edge(target))

    def at(self, path: str, value: Value) -> Array:
        """A value of the call under a path, or a cotangent of it once `gradients` are there."""
        record = self.record.by_path()[path]
        return record.values[value] if value in record.values else record.reverse[value]

    @cached_property
    def gradients(self) -> Arrays:
        """The gradients of all parameters, and of the block's own float inputs."""
        loss = loss_of(self.of.document.program.main)
        assert loss is not None
        with np.errstate(all="ignore"):
            return self.interpreter.backward(self.record, {loss: np.ones(())})
