"""The tables of `xg cost`, as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xg.cli.render.amounts import amount
from xg.cli.render.cost_sections import largest, memory, recomputing, sending, times
from xg.cli.render.table import table
from xg.cost.communication import total_formula
from xg.cost.cost import BlockCost, CostRow
from xg.cost.report import CostReport
from xg.ir.dim import Dim

COLUMNS = ("parameters", "forward FLOPs", "backward FLOPs", "saved bytes")
NOTE = (
    "FLOPs are counted from primitives: 2 for each term of a contraction, 1 for each element of\n"
    "anything elementwise, 1 for each element that a reduction takes, 0 for moving data.\n"
    "Saved bytes are what the backward pass keeps; a mask has 1 byte, an integer 8."
)


def lines(found: CostReport) -> Iterator[str]:
    """The tables of all blocks, then of all that a rank holds and sends."""
    numbers = found.numbers
    for block in found.blocks:
        yield from _block(block, found)
        yield ""
    yield f"in numbers: {sizes(found)}"
    yield from _numbers(found.blocks[0], numbers)
    for section in (sending, memory, largest, recomputing, times):
        yield from section(found)
    yield ""
    yield NOTE


def _block(block: BlockCost, found: CostReport) -> Iterator[str]:
    title = block.graph.title
    named = "" if title == block.graph.block else f' "{title}"'
    rank = ", one rank" if found.placed else ""
    yield f"{block.graph.key}{named}, one call{rank}, {found.dtype}"
    rows = [("line", "operator", *COLUMNS), *(_cells(row) for row in block.rows)]
    yield from (f"  {line}" for line in table(rows, frozenset({0})))
    formulas = [*map(str, block.total.dims())]
    if block is found.blocks[0]:
        formulas.append(total_formula(found.sent, "ring"))
    heads = ("total", "", "", "", "")
    cells = [*zip(heads, (*COLUMNS, "communication"), formulas, strict=False)]
    yield from (f"  {line}" for line in table(cells))


def _cells(row: CostRow) -> tuple[str, ...]:
    """A row as formulas; those of a call are in the callee's table."""
    place = "" if row.line is None else str(row.line)
    if row.callee:
        cells = ("" if dim.constant == 0 else row.name for dim in row.amount.dims())
    else:
        cells = (str(dim) for dim in row.amount.dims())
    return (place, row.name, *cells)


def _numbers(block: BlockCost, numbers: Mapping[str, int]) -> Iterator[str]:
    rows = [(row.name, row.line, row.amount) for row in block.rows]
    rows.append(("total", None, block.total))
    cells = [
        ("" if line is None else str(line), name, *(amount(d, numbers) for d in parts.dims()))
        for name, line, parts in rows
    ]
    right = frozenset({0, 2, 3, 4, 5})
    yield from (f"  {line}" for line in table([("line", "operator", *COLUMNS), *cells], right))


def sizes(found: CostReport) -> str:
    """Every size that the totals mention, with its number or how to give it one."""
    dims = [*found.total.dims(), *(part.payload for part in found.sent)]
    return bound(dims, found.numbers, [part.over for part in found.sent])


def bound(dims: Sequence[Dim], numbers: Mapping[str, int], more: Sequence[str] = ()) -> str:
    """The symbols of some formulas, with numbers where they have any."""
    symbols = sorted({*more, *(name for dim in dims for name in dim.symbols())})
    known = [f"{name} = {numbers[name]}" for name in symbols if name in numbers]
    free = [name for name in symbols if name not in numbers]
    if free:
        known.append(f"{' and '.join(free)} free (--set {free[0]}=…)")
    return ", ".join(known) or "no sizes"
