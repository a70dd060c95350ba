"""Two verdicts on every claim: from the given numbers, and from those printed before it.

The first says whether a number is true. The second says whether it follows from the numbers printed
before it: a step that is right on its own, computed from a wrong one, does. Printed numbers are
rounded, and that is allowed for: a step contradicts its predecessors only if no rounding of theirs,
to first order, explains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg.frontend.examples.binding import BoundExample, Claim, ClaimTarget
from xg.ir.graph import Graph, Value
from xg.verify.examples.recompute import Array, Recomputation, array
from xg.verify.reference.interpret import Edge

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
            _from_printed(recomputation, claim, others, printed, allowed),
        )
        before[edge] = claim


def _verdict(printed: Array, value: Array, allowed: Array) -> Verdict:
    with np.errstate(all="ignore"):
        return Verdict(value, np.abs(printed - value), allowed)


def _from_printed(
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
        if claim.target.gradient or edge in _reached(main, claim.target, before)
    ]
    if sum(overrides[edge].size for edge in used) > NUDGES_AT_MOST:
        return None
    slack = np.zeros(printed.shape)
    for edge in used:
        for nudged in _nudged(overrides[edge], before[edge].allowed):
            moved = recomputation.run({**overrides, edge: nudged}).value(claim.target)
            with np.errstate(all="ignore"):
                slack = slack + np.abs(moved - value)
    return _verdict(printed, value, allowed + slack)


def _nudged(values: Array, allowed: Sequence[float]) -> Iterator[Array]:
    """The array with one number moved by what it may be off, for each of its numbers."""
    for place, step in enumerate(allowed):
        moved = values.copy()
        moved.flat[place] += step
        yield moved


def _reached(main: Graph, target: ClaimTarget, before: Mapping[Edge, Claim]) -> set[Edge]:
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
