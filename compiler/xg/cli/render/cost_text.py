"""The tables of `xg cost`, as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.cli.render import cost_tables as tables
from xg.cli.render.amounts import amount
from xg.cli.render.cost_sections import largest, memory, recomputing, sending, times
from xg.cli.render.table import aligned
from xg.cost.communication import total, total_formula
from xg.cost.cost import BlockCost
from xg.cost.report import CostReport
from xg.ir.dim import Dim

NOTE = (
    "FLOPs are counted from primitives: 2 for each term of a contraction, 1 for each element of\n"
    "anything elementwise, 1 for each element that a reduction takes, 0 for moving data.\n"
    "Saved bytes are what the backward pass keeps; a mask has 1 byte, an integer 8."
)


MORE = "--full lists every operator, what is held and sent, and what may be computed again"


def lines(report: CostReport, *, full: bool) -> Iterator[str]:
    """The totals and the least times; in full also the tables that they are sums of."""
    if full:
        yield from _totals(report)
        yield from _all(report)
        return
    yield from summary(report)
    yield ""
    yield MORE


def summary(report: CostReport) -> Iterator[str]:
    """The totals and the least times."""
    yield from _totals(report)
    yield from times(report)


def _totals(report: CostReport) -> Iterator[str]:
    """Each sum with its number and its formula."""
    rank = "rank" if report.placed else "device"
    yield f"{_name(report.blocks[0])}, one step of one {rank}, {report.dtype}: {sizes(report)}"
    dims = [*zip(tables.AMOUNTS, report.total.dims(), strict=True)]
    dims.append(("held bytes", report.memory.total))
    rows = [(name, amount(dim, report.numbers), str(dim)) for name, dim in dims]
    if report.placed:
        sent = amount(total(report.sent, "ring"), report.numbers)
        rows.append(("sent elements", sent, total_formula(report.sent, "ring")))
    yield from aligned(rows, frozenset({1}), "  ")


def _all(report: CostReport) -> Iterator[str]:
    """The tables of all blocks, then of all that a rank holds and sends."""
    yield ""
    for block in report.blocks:
        yield from _block(block, report)
        yield ""
    yield f"in numbers: {sizes(report)}"
    yield from tables.in_numbers(report.blocks[0], report.numbers).lines("  ")
    for section in (sending, memory, largest, recomputing, times):
        yield from section(report)
    yield ""
    yield NOTE


def _block(block: BlockCost, report: CostReport) -> Iterator[str]:
    rank = ", one rank" if report.placed else ""
    yield f"{_name(block)}, one call{rank}, {report.dtype}"
    yield from tables.operators(block).lines("  ")
    formulas = [*map(str, block.total.dims())]
    if block is report.blocks[0]:
        formulas.append(total_formula(report.sent, "ring"))
    heads = ("total", "", "", "", "")
    cells = [*zip(heads, (*tables.AMOUNTS, "communication"), formulas, strict=False)]
    yield from aligned(cells, indent="  ")


def _name(block: BlockCost) -> str:
    title = block.graph.title
    return block.graph.key + ("" if title == block.graph.block else f' "{title}"')


def sizes(report: CostReport) -> str:
    """Every size that the totals mention, with its number or how to give it one."""
    dims = [*report.total.dims(), *(part.payload for part in report.sent)]
    lengths = report.cost.program.lengths
    return bound(dims, report.numbers, [part.over for part in report.sent], lengths)


def bound(
    dims: Sequence[Dim],
    numbers: Mapping[str, int],
    more: Sequence[str] = (),
    lengths: Mapping[str, int] | None = None,
) -> str:
    """The symbols of some formulas, with numbers where they have any.

    Sizes that a plan pads say their `lengths` too.
    """
    known = (name for name in more if name in numbers)  # an axis that no formula has needs none
    symbols = sorted({*known, *(name for dim in dims for name in dim.symbols())})
    true = {name: f" ({length} padded)" for name, length in (lengths or {}).items()}
    texts = [f"{n} = {numbers[n]}{true.get(n, '')}" for n in symbols if n in numbers]
    free = [name for name in symbols if name not in numbers]
    if free:
        texts.append(f"{' and '.join(free)} free (--set {free[0]}=…)")
    return ", ".join(texts) or "no sizes"
