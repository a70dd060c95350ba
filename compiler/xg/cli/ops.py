"""`xg ops`: the table of operators."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.cli.table import table
from xg.terminal import printable

if TYPE_CHECKING:
    from xg.op import Op, Own

EXAMPLE = "xg ops softmax"


def add_arguments(parser: ArgumentParser) -> None:
    """All operators, or one."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="an operator: S, softmax, • or @")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace, console: Console) -> int:
    """Print the table, or one operator in full."""
    from xg import ops

    every = list(ops.table().values())
    name: str | None = options.name
    chosen = [op for op in every if name is None or _is_called(op, name)]
    if name is not None and not chosen:
        console.note(f"xg ops: no operator is called {printable(name)}{_instead(name, every)}")
        return USAGE
    if options.json:
        from xg.cli.json_text import json_text

        console.write(json_text({"operators": [_as_data(op) for op in chosen]}))
    else:
        for line in _table(every) if name is None else _in_full(chosen[0]):
            console.say(line)
    return FINE


def _is_called(op: Op, name: str) -> bool:
    signs = {"@": "•", "+": "⊕", "*": "⊙"}
    return signs.get(name, name) in (op.glyph, op.name)


def _instead(name: str, every: list[Op]) -> str:
    from difflib import get_close_matches

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


def signature(op: Op) -> str:
    """What a use takes, as the language writes it: ``LN(x; gamma, beta, eps = 1e-05)``."""
    data = [f"{each.name}{'?' if each.optional else ''}" for each in op.data]
    if op.variadic:
        data = ["x_1", "x_2", "…"]
    own = [_spelled(each) for each in op.own]
    outputs = ", ".join(op.outputs) or "…"
    inside = ", ".join(data) + (f"; {', '.join(own)}" if own else "")
    return f"{op.glyph}({inside}) -> {outputs}"


def _spelled(own: Own) -> str:
    from xg.op import Length, Number, Tensor, Word
    from xg.scalar import spell_number

    match own:
        case Word():
            return f"{own.name} = {' | '.join(own.choices)}"
        case Number(default=float() as default):
            return f"{own.name} = {spell_number(default)}"
        case Number(optional=True) | Tensor(optional=True) | Length(optional=True):
            return f"{own.name}?"
        case _:
            return own.name


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
