"""`xg cost`: parameters, FLOPs and saved bytes, as formulas and numbers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xg.cli.arguments import add_file, compile_one
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.later import not_yet
from xg.cli.table import table

if TYPE_CHECKING:
    from xg.cost import Amount, BlockCost, Cost, Row
    from xg.dim import Dim

EXAMPLE = "xg cost diagrams/mha.xg --set B=8 --set S=128"

COLUMNS = ("parameters", "forward FLOPs", "backward FLOPs", "saved bytes")
NOTE = (
    "FLOPs are counted from primitives: 2 for each term of a contraction, 1 for each element of\n"
    "anything elementwise, 1 for each element that a reduction takes, 0 for moving data.\n"
    "Saved bytes are what the backward pass keeps; a mask has 1 byte, an integer 8."
)


def add_arguments(parser: ArgumentParser) -> None:
    """A file, what floats are, and the form of the answer."""
    add_file(parser)
    parser.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="of saved floats"
    )
    parser.add_argument("--hardware", metavar="FILE", help="(not in this edition)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace, console: Console) -> int:
    """Count, and print."""
    from xg.cost import cost

    if options.hardware is not None:
        raise not_yet("a hardware file (--hardware)")
    found = cost(compile_one(options).graphs, options.dtype)
    if options.json:
        from xg.cli.json_text import json_text

        console.write(json_text(as_data(found)))
    else:
        for line in lines(found):
            console.say(line)
    return FINE


def lines(found: Cost) -> Iterator[str]:
    """The tables of all blocks, as people read them."""
    numbers = found.numbers
    for block in found.blocks:
        yield from _block(block, found.dtype)
        yield ""
    yield f"in numbers: {_sizes(found)}"
    yield from _numbers(found.blocks[0], numbers)
    yield ""
    yield NOTE


def _block(block: BlockCost, dtype: str) -> Iterator[str]:
    title = block.graph.title
    named = "" if title == block.graph.block else f' "{title}"'
    yield f"{block.graph.key}{named}, one call, {dtype}"
    rows = [("line", "operator", *COLUMNS), *(_cells(row) for row in block.rows)]
    yield from (f"  {line}" for line in table(rows, frozenset({0})))
    total = zip(("total", "", "", "", ""), (*COLUMNS, "communication"), strict=True)
    formulas = (*(str(dim) for dim in block.total.dims()), "0")
    cells = [(*head, formula) for head, formula in zip(total, formulas, strict=True)]
    yield from (f"  {line}" for line in table(cells))


def _cells(row: Row) -> tuple[str, ...]:
    """A row as formulas; those of a call stand in the callee's table."""
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
        ("" if line is None else str(line), name, *(_number(d, numbers) for d in amount.dims()))
        for name, line, amount in rows
    ]
    right = frozenset({0, 2, 3, 4, 5})
    yield from (f"  {line}" for line in table([("line", "operator", *COLUMNS), *cells], right))


def _number(dim: Dim, numbers: Mapping[str, int]) -> str:
    value = evaluated(dim, numbers)
    return "?" if value is None else f"{value:,}"


def evaluated(dim: Dim, numbers: Mapping[str, int]) -> int | None:
    """A formula as a number, None while a symbol has none."""
    known = all(name in numbers for name in dim.symbols())
    return dim.evaluate(numbers) if known else None


def _sizes(found: Cost) -> str:
    numbers = found.numbers
    symbols = sorted({name for dim in found.total.dims() for name in dim.symbols()})
    bound = [f"{name} = {numbers[name]}" for name in symbols if name in numbers]
    free = [name for name in symbols if name not in numbers]
    if free:
        bound.append(f"{' and '.join(free)} free (--set {free[0]}=…)")
    return ", ".join(bound) or "no sizes"


def as_data(found: Cost) -> Mapping[str, object]:
    """The same as one JSON document: every amount as formula and number."""
    return {
        "block": found.program.main.block,
        "dtype": found.dtype,
        "sizes": dict(sorted(found.numbers.items())),
        "total": _amount_data(found.total, found.numbers),
        "blocks": [
            {
                "block": block.graph.key,
                "total": _amount_data(block.total, None),
                "rows": [_row_data(row) for row in block.rows],
            }
            for block in found.blocks
        ],
    }


def _row_data(row: Row) -> Mapping[str, object]:
    return {"operator": row.name, "line": row.line, **_amount_data(row.amount, None)}


def _amount_data(amount: Amount, numbers: Mapping[str, int] | None) -> Mapping[str, object]:
    """Formulas; with numbers too where `numbers` are those of its symbols."""
    names = [column.replace(" ", "_").lower() for column in COLUMNS]
    pairs = [*zip(names, amount.dims(), strict=True)]
    if numbers is None:
        return {name: str(dim) for name, dim in pairs} | {"communication": "0"}
    both = {name: {"formula": str(d), "number": evaluated(d, numbers)} for name, d in pairs}
    return both | {"communication": {"formula": "0", "number": 0}}
