"""Two compilations edge by edge and collective by collective, and what each costs a rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from xg.cost.communication import Pass, Sent, total, total_bytes
from xg.cost.report import CostReport
from xg.diagnostics.lazy_dataclass import dataclass, replace
from xg.ir.dim import Dim
from xg.ir.graph import IRProgram
from xg_pages.diff.edge_keys import Edge, edges, old_edges
from xg_pages.diff.steps import otherwise

Thing = TypeVar("Thing", Edge, Sent)
Sending = tuple[Pass, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: its name, the program of a rank, the whole with its moves, and its costs."""

    name: str
    program: IRProgram
    placed: IRProgram | None
    report: CostReport

    @property
    def whole(self) -> IRProgram:
        """The program that its edges are read from."""
        return self.placed or self.program


@dataclass(frozen=True, slots=True)
class Change(Generic[Thing]):
    """A thing before and after; one of both is None where it appeared or vanished."""

    before: Thing | None
    after: Thing | None

    @property
    def present(self) -> Thing:
        """The thing after, or before if it vanished."""
        thing = self.after or self.before
        assert thing
        return thing

    @property
    def made_otherwise(self) -> tuple[str, ...]:
        """The differences in the making of an edge whose maker is the same, for people."""
        before, after = self.before, self.after
        if not isinstance(before, Edge) or not isinstance(after, Edge):
            return ()
        return (
            ()
            if before.maker != after.maker
            else tuple(otherwise(before.making, after.making, after.maker))
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """All that differs. `costs` holds every amount of a rank, before and after.

    `sizes` are the numbers that both have and that differ.
    """

    before: Side
    after: Side
    edges: tuple[Change[Edge], ...]
    collectives: tuple[Change[Sent], ...]
    costs: Mapping[str, tuple[Dim, Dim]]
    sizes: Mapping[str, tuple[int, int]]

    @property
    def is_empty(self) -> bool:
        """Whether edges, collectives and sizes are the same."""
        return not self.edges and not self.collectives and not self.sizes


def compare(before: Side, after: Side) -> Difference:
    """The differences of `after` from `before`."""
    old, new = old_edges(before.whole, after.whole), edges(after.whole)
    changed = [change for change in _paired(old, new) if _differs(change)]
    sending = _paired(_collectives(before), _collectives(after))
    return Difference(
        before,
        after,
        tuple(changed),
        tuple(change for change in sending if _sends_otherwise(change)),
        dict(zip(_NAMES, zip(_amounts(before), _amounts(after), strict=True), strict=True)),
        _sizes(before, after),
    )


def _sizes(before: Side, after: Side) -> dict[str, tuple[int, int]]:
    old, new = before.report.numbers, after.report.numbers
    both = sorted(old.keys() & new.keys())
    return {name: (old[name], new[name]) for name in both if old[name] != new[name]}


_Key = TypeVar("_Key")


def _paired(old: Mapping[_Key, Thing], new: Mapping[_Key, Thing]) -> Iterator[Change[Thing]]:
    """The common keys, in the order of the new; then those that only the old has."""
    for key, thing in new.items():
        yield Change(old.get(key), thing)
    yield from (Change(thing, None) for key, thing in old.items() if key not in new)


def _differs(change: Change[Edge]) -> bool:
    if change.before is None or change.after is None:
        return True
    return change.before.state != change.after.state


# ---- collectives ---------------------------------------------------------------------------------


def _collectives(side: Side) -> dict[Sending, Sent]:
    """Its collectives, those of one name in one block together."""
    sending: dict[Sending, Sent] = {}
    for part in side.report.sent:
        key = (part.direction, part.block, part.kind, part.over, part.of)
        sent = sending.get(key)
        if sent:
            payload, calls = sent.payload + part.payload, sent.calls + part.calls
            part = replace(sent, payload=payload, calls=calls)
        sending[key] = part
    return sending


def _sends_otherwise(change: Change[Sent]) -> bool:
    old, new = change.before, change.after
    return old is None or new is None or (old.payload, old.calls) != (new.payload, new.calls)


# ---- costs ---------------------------------------------------------------------------------------

_NAMES = (
    "parameters", "forward FLOPs", "backward FLOPs", "saved bytes", "held bytes",
    "sent naive", "sent ring", "ring bytes",
)  # fmt: skip


def _amounts(side: Side) -> tuple[Dim, ...]:
    report = side.report
    return (
        *report.total.dims(),
        report.memory.total,
        total(report.sent, "naive"),
        total(report.sent, "ring"),
        total_bytes(report.sent),
    )
