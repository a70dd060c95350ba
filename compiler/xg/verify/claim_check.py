"""Recompute the numbers of a document, and judge every claim of its examples.

The second verdict takes the claims above as true, because the author's first question is whether a
step is wrong by itself. It never fails the command: otherwise a true number would have to be marked
wrong. Rounding is allowed for, or a right document would contradict itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.examples import BoundExample, Claim, ClaimTarget, Numbers, documents, site_graph
from xg.frontend.project import Project
from xg.frontend.typed import Settings
from xg.ir.graph import Graph, Value
from xg.ir.tensor import TensorType
from xg.ir.walk import loss_of, param_specs
from xg.verify.reference.evaluate import Stopped
from xg.verify.reference.interpret import Edge, Interpreter, Record
from xg_runtime import gradcheck
from xg_runtime.errors import InputError
from xg_runtime.gradcheck import Row
from xg_runtime.module import Array, Arrays

# The numbers of a document computed again, in float64, by the reference interpreter.
#
# Dropout is off. Printed numbers of the document can replace computed ones, so that a claim is
# judged by the numbers that the document itself continues with.


def array(numbers: Numbers) -> Array:
    """Printed numbers as an array of float64."""
    return np.array(numbers.values, dtype=np.float64).reshape(numbers.shape)


@dataclass(frozen=True)
class Recomputation:
    """A document whose numbers can be computed: from its givens, or from what it prints."""

    document: BoundExample

    @cached_property
    def inputs(self) -> Arrays:
        """The inputs [as the block declares them]."""
        main = self.document.program.main
        return {
            str(value.name): self._given_array(str(value.name), main.types[value])
            for value in main.inputs
        }

    @cached_property
    def params(self) -> Arrays:
        """The parameters by path; one that is not given is as it starts, ones or zeros."""
        arrays: Arrays = {}
        for path, param, graph, symbols in param_specs(self.document.program):
            type_ = graph.sizes.expand_type(param.type).substitute(symbols)
            if path in self.document.givens:
                arrays[path] = self._given_array(path, type_)
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
        stopped: Stopped | None = None,
    ) -> ExampleRun:
        """One forward pass; `given` replaces inputs and parameters by full name."""
        other = given or {}
        params = {name: other.get(name, value) for name, value in self.params.items()}
        inputs = {name: other.get(name, value) for name, value in self.inputs.items()}
        interpreter = Interpreter(
            self.document.program,
            params,
            overrides=overrides or {},
            stopped=stopped,
        )
        with np.errstate(all="ignore"):
            outputs, record = interpreter.forward(inputs)
        return ExampleRun(self, interpreter, outputs, record)

    def _given_array(self, name: str, type_: TensorType) -> Array:
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


# Two verdicts on every claim: from the given numbers, and from those printed before it.
#
# The first says whether a number is true. The second says whether it follows from the numbers
# printed before it: a step that is right on its own, computed from a wrong one, does. Printed
# numbers are rounded, and that is allowed for: a step contradicts its predecessors only if no
# rounding of theirs, to first order, explains it.


Standing = Literal["true", "false", "false, as marked", "marked wrong, but true"]

ROUNDING: Final = 1e-9  # relative; a value on the very border of what is allowed is inside
NUDGES_AT_MOST: Final = 2_000  # numbers before a claim whose rounding is followed


@dataclass(frozen=True)
class Verdict:
    """The expected numbers of a claim, and how far each printed one may be off."""

    value: Array
    error: Array
    allowed: Array

    @property
    def holds(self) -> Array:
        """Which of the numbers hold."""
        return self.error <= self.allowed * (1 + ROUNDING)

    @property
    def passed(self) -> bool:
        """Whether all of them do."""
        return bool(self.holds.all())

    @property
    def largest(self) -> float:
        """The largest error, NaN where one is."""
        return float(np.max(self.error, initial=0.0))


@dataclass(frozen=True)
class Judged:
    """A claim and its verdicts; `from_printed` is None if too many numbers precede it."""

    claim: Claim
    printed: Array
    from_givens: Verdict
    from_printed: Verdict | None

    @property
    def standing(self) -> Standing:
        """The verdict on the claim, its mark considered."""
        if self.claim.wrong is None:
            return "true" if self.from_givens.passed else "false"
        return "marked wrong, but true" if self.from_givens.passed else "false, as marked"

    @property
    def passed(self) -> bool:
        """Whether it is as the document says: true, or marked as the false one that it is."""
        return self.standing in ("true", "false, as marked")


def judge(document: BoundExample) -> Iterator[Judged]:
    """Every claim of a document in order."""
    recomputation = Recomputation(document)
    true = recomputation.run()
    before: dict[Edge, Claim] = {}
    for claim in document.claims:
        printed = array(claim.printed)
        allowed = np.array(claim.allowed).reshape(printed.shape)
        edge = recomputation.edge(claim.target)
        others = {other: each for other, each in before.items() if other != edge}
        yield Judged(
            claim,
            printed,
            _verdict(printed, true.value(claim.target), allowed),
            _printed_verdict(recomputation, claim, others, printed, allowed),
        )
        before[edge] = claim


def _verdict(printed: Array, value: Array, allowed: Array) -> Verdict:
    with np.errstate(all="ignore"):
        return Verdict(value, np.abs(printed - value), allowed)


def _printed_verdict(
    recomputation: Recomputation,
    claim: Claim,
    before: Mapping[Edge, Claim],
    printed: Array,
    allowed: Array,
) -> Verdict | None:
    """The claim from the last printed values before it, their rounding allowed for."""
    overrides = {edge: array(each.printed) for edge, each in before.items()}
    value = recomputation.run(overrides).value(claim.target)
    main = recomputation.document.program.main
    used = [
        edge
        for edge in before
        if claim.target.gradient or edge in _printed_sources(main, claim.target, before)
    ]
    if sum(overrides[edge].size for edge in used) > NUDGES_AT_MOST:
        return None
    slack = np.zeros(printed.shape)
    for edge in used:
        for nudged in _nudge_numbers(overrides[edge], before[edge].allowed):
            moved = recomputation.run({**overrides, edge: nudged}).value(claim.target)
            with np.errstate(all="ignore"):
                slack = slack + np.abs(moved - value)
    return _verdict(printed, value, allowed + slack)


def _nudge_numbers(values: Array, allowed: Sequence[float]) -> Iterator[Array]:
    """The array with one number moved by what it may be off, for each of its numbers."""
    for place, step in enumerate(allowed):
        moved = values.copy()
        moved.flat[place] += step
        yield moved


def _printed_sources(main: Graph, target: ClaimTarget, before: Mapping[Edge, Claim]) -> set[Edge]:
    """The printed edges that a forward value is computed from, without any in between.

    Everything printed inside of calls counts, without a closer look.
    """
    if target.path:
        return set(before)
    makers = {value: step for step in main.steps for value in step.outputs}
    edges = {edge for edge in before if edge[0]}
    seen: set[Value] = set()
    waiting = list(makers[target.primal].inputs)
    while waiting:
        value = waiting.pop()
        if ("", value) in before:
            edges.add(("", value))
        elif value not in seen and value in makers:
            waiting += makers[value].inputs
        seen.add(value)
    return edges


BY_DEFINITION = "zero with these numbers, to the last bit"


@dataclass(frozen=True)
class CheckedDocument:
    """A document, its claims judged, and its claimed gradients against finite differences."""

    document: BoundExample
    claims: tuple[Judged, ...]
    differences: Mapping[str, Row]

    @property
    def passed(self) -> bool:
        """Return whether all claims are as marked, and all claimed gradients match the loss."""
        proven = all(row.verdict != "failed" for row in self.differences.values())
        return proven and all(claim.passed for claim in self.claims)


def checked(
    project: Project, block: str | None, settings: Settings, seed: int
) -> Iterator[CheckedDocument]:
    """The examples that claim something, of a file or of one block.

    Raises DiagnosticError, and InputError where there is none.
    """
    count = 0
    for document in documents(project, block, settings):
        if document.claims:
            count += 1
            yield check_document(document, seed)
    if not count:
        of = f"block {block}" if block is not None else project.main.span.source.name
        raise InputError(f"{of} has no example to check: write one with `given` and `expect`")


def check_document(document: BoundExample, seed: int) -> CheckedDocument:
    """Judge the claims of one example, and prove the gradients that it claims."""
    recomputation = Recomputation(document)
    gradients = {c.target.name: c.target for c in document.claims if c.target.gradient}
    differences = {
        name: _difference(recomputation, target, seed) for name, target in gradients.items()
    }
    return CheckedDocument(document, tuple(judge(document)), differences)


def _difference(recomputation: Recomputation, target: ClaimTarget, seed: int) -> Row:
    """The gradient that a claim is about, against central differences of the loss."""
    name = target.source
    loss = loss_of(recomputation.document.program.main) or ""
    edge = (target.path, target.primal)
    start, stopped = _start(recomputation, target), Stopped()
    nothing = not np.any(recomputation.run(stopped=stopped).value(target))

    def outputs(values: Arrays) -> Arrays:
        run = recomputation.run({edge: values[name]}, values, stopped.replayed())
        return {loss: run.outputs[loss]}

    def gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
        run = recomputation.run({edge: values[name]}, values, stopped.replayed())
        return {name: run.value(target) * d_outputs[loss]}

    zeros = {name: BY_DEFINITION} if nothing else {}
    return gradcheck.check(outputs, gradient, {name: start}, zeros=zeros, seed=seed).rows[0]


def _start(recomputation: Recomputation, target: ClaimTarget) -> Array:
    """The first array of a claim: the value itself, without the gradient."""
    arrays = {**recomputation.inputs, **recomputation.params}
    if target.source in arrays:
        return arrays[target.source]
    return recomputation.run().at(target.path, target.primal)
