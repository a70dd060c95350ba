"""Sections of `xg cost` about a rank besides its operators: sending, memory, recomputing, time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from xg.cli.render.amounts import amount, seconds
from xg.cli.render.table import table
from xg.cost.communication import SHORT, Sent, summed, total, total_bytes, total_formula
from xg.cost.report import CostReport
from xg.ir.dim import ZERO

_HEAD: Final = ("pass", "collective", "over", "calls", "payload", "naive", "ring")
ESTIMATE: Final = (
    "time of one step, an estimate: peak rates, nothing overlaps, nothing else is waited for"
)


def sending(found: CostReport) -> Iterator[str]:
    """Every collective, as formulas and in numbers; a layer of each kind; the sums."""
    if not found.placed:
        return
    yield ""
    yield "communication of one rank in one step, in elements; payload is that of one call"
    if not found.sent:
        yield "  nothing is sent"
        return
    head = ("line", "block", "of", *_HEAD)
    yield from _indented([head, *(_collective(part) for part in found.sent)], 0)
    for each in found.rounds:
        for way in ("naive", "ring"):
            yield f"  one {each.name}, {way}: {total_formula(each.sent, way)}"
    for way in ("naive", "ring"):
        yield f"  total, {way}: {total_formula(found.sent, way)}"
    yield f"in numbers, bytes of {found.dtype} around a ring"
    rows = [("pass", "collective", "over", "calls", "payload", "naive", "ring", "ring bytes")]
    rows += [_sum(part, found) for part in summed(found.sent)]
    rows.append(_total(found))
    yield from _indented(rows, 3, 4, 5, 6, 7)


def _collective(part: Sent) -> tuple[str, ...]:
    """One collective as formulas; naive and ring are of all calls."""
    key = part.key.partition("(")[0].strip()
    return (
        str(part.line),
        key,
        part.of,
        part.direction,
        SHORT[part.kind],
        part.over,
        str(part.calls),
        str(part.payload / part.calls),
        part.formula("naive"),
        part.formula("ring"),
    )


def _sum(part: Sent, found: CostReport) -> tuple[str, ...]:
    dims = (part.calls, part.payload, part.elements("naive"), part.elements("ring"))
    cells = (amount(dim, found.numbers) for dim in (*dims, part.bytes("ring")))
    return (part.direction, SHORT[part.kind], part.over, *cells)


def _total(found: CostReport) -> tuple[str, ...]:
    calls = sum((part.calls for part in found.sent), ZERO)
    payload = sum((part.payload for part in found.sent), ZERO)
    dims = (calls, payload, total(found.sent, "naive"), total(found.sent, "ring"))
    cells = (amount(dim, found.numbers) for dim in (*dims, total_bytes(found.sent)))
    return ("total", "", "", *cells)


def memory(found: CostReport) -> Iterator[str]:
    """The memory of a rank."""
    if not found.total.saved.terms:
        return
    yield ""
    yield f"memory of one {_place(found)} in training, bytes of {found.dtype}"
    held = found.memory
    rows = [
        ("parameters", held.parameters),
        ("gradients", held.gradients),
        ("moments of Adam or AdamW", held.optimizer),
        ("saved activations", held.saved),
        ("total", held.total),
    ]
    cells = [(name, amount(dim, found.numbers), str(dim)) for name, dim in rows]
    yield from _indented(cells, 1)


def largest(found: CostReport) -> Iterator[str]:
    """The largest array of a single step, in addition to the memory that is held."""
    one = found.largest
    if one is None:
        return
    yield ""
    yield f"largest array of one step, bytes of {found.dtype}"
    kind = "an array inside" if one.inner else "the result of"
    where = f"{kind} {one.name}, {one.block}, line {one.line}, {one.direction} pass"
    yield f"  {amount(one.size, found.numbers)}  {one.size}: {where}"


def recomputing(found: CostReport) -> Iterator[str]:
    """The savings and costs of recompute policies."""
    if len(found.policies) < 2:
        return
    yield ""
    yield "recompute policies, an analysis: generated code saves all"
    head = ("policy", "saved bytes", "at once", "FLOPs in all", "FLOPs again", "sent again")
    rows: list[tuple[str, ...]] = [head]
    flops = found.total.forward + found.total.backward
    for each in found.policies:
        dims = (each.saved, each.at_once, flops + each.again, each.again, total(each.sent, "ring"))
        rows.append((each.name, *(amount(dim, found.numbers) for dim in dims)))
    yield from _indented(rows, 1, 2, 3, 4, 5)
    for each in found.policies[1:]:
        yield f"  {each.name}: saved {each.saved}; again {each.again}{_again(each.sent)}"


def _again(parts: Sequence[Sent]) -> str:
    return f"; sent again, ring {total_formula(parts, 'ring')}" if parts else ""


def times(found: CostReport) -> Iterator[str]:
    """How long machines take at least; nothing while a size has no number."""
    if not any(each.compute is not None for each in found.estimates):
        return
    yield ""
    yield ESTIMATE
    rows: list[tuple[str, ...]] = [("machine", "computing", "sending", "together", "")]
    for each in found.estimates:
        parts = (each.compute, each.communicate, each.total)
        rows.append((each.machine.name, *map(seconds, parts), each.machine.title))
    yield from _indented(rows, 1, 2, 3)


def _place(found: CostReport) -> str:
    return "rank" if found.placed else "device"


def _indented(rows: Sequence[Sequence[str]], *right: int) -> Iterator[str]:
    yield from (f"  {line}" for line in table(rows, frozenset(right)))
