"""`xg verify --against document`: every claim of every example of a file, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.examples.binding import BoundExample, ClaimTarget, documents
from xg.frontend.project import Project
from xg.frontend.typed import Settings
from xg.ir.loss import loss_of
from xg.verify.examples.judge import Judged, judge
from xg.verify.examples.recompute import Array, Arrays, Recomputation
from xg_runtime import gradcheck
from xg_runtime.errors import InputError
from xg_runtime.gradcheck import Row

BY_DEFINITION = "zero with these numbers, to the last bit"


@dataclass(frozen=True)
class CheckedDocument:
    """A document, its claims judged, and its claimed gradients against finite differences."""

    document: BoundExample
    claims: tuple[Judged, ...]
    differences: Mapping[str, Row]

    @property
    def passed(self) -> bool:
        """Whether every claim is as the document says, and every gradient that of the loss."""
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
        if not document.claims:
            continue
        count += 1
        recomputation = Recomputation(document)
        gradients = {c.target.name: c.target for c in document.claims if c.target.gradient}
        differences = {
            name: _difference(recomputation, target, seed) for name, target in gradients.items()
        }
        yield CheckedDocument(document, tuple(judge(document)), differences)
    if not count:
        of = f"block {block}" if block is not None else project.main.span.source.name
        raise InputError(f"{of} has no example whose claims could be checked")


def _difference(recomputation: Recomputation, target: ClaimTarget, seed: int) -> Row:
    """The gradient that a claim is about, against central differences of the loss."""
    name = target.source
    loss = loss_of(recomputation.document.program.main) or ""
    edge = (target.path, target.primal)
    start = _start(recomputation, target)

    def outputs(values: Arrays) -> Arrays:
        run = recomputation.run({edge: values[name]}, values)
        return {loss: run.outputs[loss]}

    def gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
        run = recomputation.run({edge: values[name]}, values)
        return {name: run.value(target) * d_outputs[loss]}

    nothing = not np.any(recomputation.run().value(target))
    zeros = {name: BY_DEFINITION} if nothing else {}
    return gradcheck.check(outputs, gradient, {name: start}, zeros=zeros, seed=seed).rows[0]


def _start(recomputation: Recomputation, target: ClaimTarget) -> Array:
    """The first array of a claim: the value itself, without the gradient."""
    arrays = {**recomputation.inputs, **recomputation.params}
    if target.source in arrays:
        return arrays[target.source]
    return recomputation.run().at(target.path, target.primal)
