"""Let Lark compute the parser of the grammar and write it: `python -m xg_grammar.build`.

Lark numbers states and tokens in an order that depends on the hashes of texts; they are numbered
again, so that the same grammar always gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

from lark import Lark
from lark.grammar import Rule
from lark.lexer import Lexer, LexerState, TerminalDef, Token

from xg_grammar import SerializedParser, text

Table: TypeAlias = Any  # Lark's own form: states, tokens, start_states, end_states
SHIFT = 0


class _NoLexer(Lexer):
    """Takes the place of Lark's lexer, which compares all patterns in strict mode."""

    def __init__(self, conf: object) -> None: ...

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Token]:
        """Read nothing."""
        return iter(())


def build(grammar: str) -> SerializedParser:
    """The parser of a grammar; lark.exceptions.GrammarError where it has a conflict."""
    # strict: no conflict is resolved silently
    lark = Lark(grammar, parser="lalr", lexer=_NoLexer, strict=True, maybe_placeholders=True)
    data, memo = cast("Any", lark).memo_serialize([TerminalDef, Rule])
    data["options"]["lexer"] = data["parser"]["lexer_conf"]["lexer_type"] = "basic"
    data["parser"]["parser"] = _renumbered(data["parser"]["parser"])
    return {"data": data, "memo": memo}


def _renumbered(table: Table) -> Table:
    """A table whose tokens are in alphabetic order, and states as a walk from the start."""
    names: list[str] = sorted(table["tokens"].values())
    rows: dict[int, dict[str, Any]] = {
        state: dict(sorted((table["tokens"][token], action) for token, action in row.items()))
        for state, row in table["states"].items()
    }
    order: list[int] = list(table["start_states"].values())
    number = {state: position for position, state in enumerate(order)}
    for state in order:  # grows while it is walked
        for target in _shifts(rows[state].values()):
            if target not in number:
                number[target] = len(order)
                order.append(target)
    token = {name: position for position, name in enumerate(names)}
    return {
        "tokens": dict(enumerate(names)),
        "states": {
            number[state]: {
                token[name]: (kind, number[target] if kind == SHIFT else target)
                for name, (kind, target) in rows[state].items()
            }
            for state in order
        },
        "start_states": {name: number[state] for name, state in table["start_states"].items()},
        "end_states": {name: number[state] for name, state in table["end_states"].items()},
    }


def _shifts(actions: Iterable[tuple[int, int]]) -> Iterator[int]:
    return (target for kind, target in actions if kind == SHIFT)


def written(parser: SerializedParser) -> str:
    """The parser as JSON with one terminal, rule or state in each line, to be compared."""
    compact = json.dumps(parser, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r'(?<=[{,])(?="\d+":\{)', "\n", compact) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("parser.json").write_text(written(build(text())), encoding="utf-8")
