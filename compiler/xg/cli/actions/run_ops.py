"""`xg ops`: the table of operators."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from xg import ops
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.cli.render.dictionary import dictionary
from xg.cli.render.json_text import json_text
from xg.cli.render.table import Column, Table, aligned
from xg.diagnostics.terminal import columns_of, printable, width
from xg.diagnostics.wording import similar
from xg.figures import dot, on_a_sheet
from xg.ir.op import Convention, Op, signature
from xg.passes.resolve.foreign_names import meant
from xg_runtime import files

SIGNS = {"@": "•", "+": "⊕", "*": "⊙"}  # as a keyboard has them

_COLUMNS: tuple[Column[Op], ...] = (
    Column("glyph", "glyph", lambda op: op.glyph),
    Column("name", "name", lambda op: op.name),
    Column("signature", "signature", signature),
    Column(None, "family", lambda op: op.family),
    Column("meaning", "meaning", lambda op: op.meaning),
    Column(None, "formula", lambda op: op.formula),
    Column(None, "gradient", lambda op: op.gradient),
    Column(None, "source", lambda op: op.source),
)


def run(options: Namespace, console: Console) -> int:
    """Print the table, or one operator in full."""
    if options.figure is not None:
        return _draw(options.figure, console)
    every = list(ops.table().values())
    name: str | None = options.name
    chosen = every if name is None else _called(name, every)
    if name is not None and not chosen:
        console.note(f"xg ops: no operator is called {printable(name)}{_instead(name, every)}")
        return USAGE
    table = Table(_COLUMNS, chosen)
    if options.json:
        edges = ({"conventions": [_data(each) for each in op.conventions]} for op in chosen)
        operators = [{**row, **more} for row, more in zip(table.data(), edges, strict=True)]
        console.write(json_text({"operators": operators}))
    else:
        console.say_all(_fitting(table) if name is None else _in_full(chosen[0]))
    return FINE


def _fitting(table: Table[Op]) -> Iterator[str]:
    """The table; on a terminal that is too narrow for it, meanings on lines of their own."""
    lines, columns = list(table.lines()), columns_of(sys.stdout)
    if columns is None or max(map(width, lines)) <= columns:
        yield from lines
        return
    narrow = Table(_COLUMNS[:3], table.rows).lines()
    for use, meaning in zip(narrow, ("meaning", *(op.meaning for op in table.rows)), strict=True):
        yield use
        yield f"    {meaning}"


def _draw(path: Path, console: Console) -> int:
    """The operator dictionary as a figure, in the format of the file's ending."""
    match path.suffix:
        case ".dot":
            data = dot(dictionary()[0]).encode()
        case ".svg" | ".pdf" | ".png" | ".tex" as ending:
            data = on_a_sheet(*dictionary(), ending[1:])  # pyright: ignore[reportArgumentType] # matched
        case _:
            console.note(
                f"xg ops: {printable(str(path))} must end in .svg, .pdf, .png, .tex or .dot"
            )
            return USAGE
    files.write(path, data)
    return FINE


def _called(name: str, every: list[Op]) -> list[Op]:
    """The operator of that glyph or name, in any spelling; of two, the one in the same letters."""
    sign = SIGNS.get(name, name)
    exact = [op for op in every if sign in (op.glyph, op.name)]
    folded = sign.casefold()
    return exact or [op for op in every if folded in (op.glyph.casefold(), op.name)]


def _instead(name: str, every: list[Op]) -> str:
    names = [each for op in every for each in (op.glyph, op.name)]
    other = similar(name, names)
    known = meant(name) or ((f"did you mean {other}?",) if other else ())
    return "".join(f": {help}" for help in known)


def _in_full(op: Op) -> Iterator[str]:
    facts = [(str(column.key), str(column.value(op))) for column in _COLUMNS[2:]]
    yield f"{op.glyph}  {op.name}"
    yield from aligned([fact for fact in facts if fact[1]], indent="  ")
    if op.conventions:
        yield "  At the edges (docs/conventions.md has values and gradients):"
        edges = [(each.edge, _rule(each)) for each in op.conventions]
        yield from aligned(edges, indent="    ")


def _rule(convention: Convention) -> str:
    """The rule, and whether torch has another one."""
    return f"{convention.rule}{' (not as PyTorch)' if convention.differs else ''}"


def _data(convention: Convention) -> dict[str, str]:
    """A convention in JSON: its words, without arrays."""
    words = ("edge", "rule", "use", "torch", "differs")
    return {word: str(getattr(convention, word)) for word in words}
