"""`xg ops`: the table of operators."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from xg import ops
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.cli.render.json_text import json_text
from xg.cli.render.table import table
from xg.diagnostics.terminal import printable
from xg.figures import dot, render
from xg.figures.model.dictionary import dictionary
from xg.ir.op import Op
from xg.ir.signature import signature
from xg_runtime import files

SIGNS = {"@": "•", "+": "⊕", "*": "⊙"}  # as a keyboard has them


def run(options: Namespace, console: Console) -> int:
    """Print the table, or one operator in full."""
    if options.figure is not None:
        return _draw(Path(options.figure), console)
    every = list(ops.table().values())
    name: str | None = options.name
    chosen = every if name is None else _called(name, every)
    if name is not None and not chosen:
        console.note(f"xg ops: no operator is called {printable(name)}{_instead(name, every)}")
        return USAGE
    if options.json:
        console.write(json_text({"operators": [_as_data(op) for op in chosen]}))
    else:
        for line in _table(every) if name is None else _in_full(chosen[0]):
            console.say(line)
    return FINE


def _draw(path: Path, console: Console) -> int:
    """The operator dictionary as a figure, in the format of the file's ending."""
    match path.suffix:
        case ".dot":
            data = dot(dictionary()).encode()
        case ".svg" | ".pdf" | ".png" as ending:
            data = render(dictionary(), ending[1:])  # pyright: ignore[reportArgumentType] # matched
        case _:
            console.note(f"xg ops: {printable(str(path))} must end in .svg, .pdf, .png or .dot")
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
    known = [each for op in every for each in (op.glyph, op.name)]
    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}?" if close else ""


def _table(every: list[Op]) -> Iterator[str]:
    rows = [(op.glyph, op.name, signature(op), op.meaning) for op in every]
    yield from table([("glyph", "name", "signature", "meaning"), *rows])


def _in_full(op: Op) -> Iterator[str]:
    facts = [
        ("signature", signature(op)),
        ("family", op.family),
        ("meaning", op.meaning),
        ("formula", op.formula),
        ("gradient", op.gradient),
        ("source", op.source),
    ]
    yield f"{op.glyph}  {op.name}"
    yield from (f"  {line}" for line in table([fact for fact in facts if fact[1]]))


def _as_data(op: Op) -> Mapping[str, str]:
    return {
        "glyph": op.glyph,
        "name": op.name,
        "family": op.family,
        "signature": signature(op),
        "meaning": op.meaning,
        "formula": op.formula,
        "gradient": op.gradient,
        "source": op.source,
    }
