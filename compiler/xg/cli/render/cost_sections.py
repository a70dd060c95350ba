"""Sections of `xg cost` about a rank besides its operators: sending, memory, recomputing, time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.cli.render import cost_tables as tables
from xg.cli.render.amounts import amount
from xg.cli.render.table import aligned
from xg.cost.communication import SHORT, Sent, summed, total, total_bytes, total_formula
from xg.cost.report import CostReport
from xg.ir.dim import ZERO

ESTIMATE: Final = (
    "time of one step, an estimate: peak rates, nothing overlaps, nothing else is waited for"
)


def sending(report: CostReport) -> Iterator[str]:
    """Every collective, as formulas and in numbers; a layer of each kind; the sums."""
    if not report.placed:
        return
    yield ""
    yield "communication of one rank in one step, in elements; payload is that of one call"
    if not report.sent:
        yield "  nothing is sent"
        return
    yield from tables.collectives(report).lines("  ")
    for each in report.rounds:
        for way in ("naive", "ring"):
            yield f"  one {each.name}, {way}: {total_formula(each.sent, way)}"
    for way in ("naive", "ring"):
        yield f"  total, {way}: {total_formula(report.sent, way)}"
    yield f"in numbers, bytes of {report.dtype} around a ring"
    rows = [("pass", "collective", "over", "calls", "payload", "naive", "ring", "ring bytes")]
    rows += [_sum(part, report) for part in summed(report.sent)]
    rows.append(_total(report))
    yield from aligned(rows, frozenset(range(3, 8)), "  ")


def _sum(part: Sent, report: CostReport) -> tuple[str, ...]:
    dims = (part.calls, part.payload, part.elements("naive"), part.elements("ring"))
    cells = (amount(dim, report.numbers) for dim in (*dims, part.bytes("ring")))
    return (part.direction, SHORT[part.kind], part.over, *cells)


def _total(report: CostReport) -> tuple[str, ...]:
    calls = sum((part.calls for part in report.sent), ZERO)
    payload = sum((part.payload for part in report.sent), ZERO)
    dims = (calls, payload, total(report.sent, "naive"), total(report.sent, "ring"))
    cells = (amount(dim, report.numbers) for dim in (*dims, total_bytes(report.sent)))
    return ("total", "", "", *cells)


def memory(report: CostReport) -> Iterator[str]:
    """The memory of a rank."""
    if not report.total.saved.terms:
        return
    yield ""
    yield f"memory of one {_place(report)} in training, bytes of {report.dtype}"
    rows = tables.memory(report)
    cells = [(name, amount(dim, report.numbers), str(dim)) for name, _, dim in rows]
    yield from aligned(cells, frozenset({1}), "  ")


def largest(report: CostReport) -> Iterator[str]:
    """The largest array of a single step, in addition to the memory that is held."""
    one = report.largest
    if one is None:
        return
    yield ""
    yield f"largest array of one step, bytes of {report.dtype}"
    kind = "an array inside" if one.inner else "the result of"
    where = f"{kind} {one.name}, {one.block}, line {one.line}, {one.direction} pass"
    yield f"  {amount(one.size, report.numbers)}  {one.size}: {where}"


def recomputing(report: CostReport) -> Iterator[str]:
    """The savings and costs of recompute policies."""
    if len(report.policies) < 2:
        return
    yield ""
    yield "recompute policies, an analysis; a plan chooses by `again` and `keep`"
    yield from tables.policies(report).lines("  ")
    for each in report.policies[1:]:
        yield f"  {each.name}: saved {each.saved}; again {each.again}{_again(each.sent)}"


def _again(parts: Sequence[Sent]) -> str:
    return f"; sent again, ring {total_formula(parts, 'ring')}" if parts else ""


def times(report: CostReport) -> Iterator[str]:
    """How long machines take at least; nothing while a size has no number."""
    if not any(each.compute is not None for each in report.estimates):
        return
    yield ""
    yield ESTIMATE
    yield from tables.estimates(report).lines("  ")


def _place(report: CostReport) -> str:
    return "rank" if report.placed else "device"
