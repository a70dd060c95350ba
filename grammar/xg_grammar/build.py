"""Let Lark compute the parser of the grammar and write it: `python -m xg_grammar.build`.

Lark numbers states and tokens in an order that depends on the hashes of texts; they are numbered
again, so that the same grammar always gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

from lark import Lark
from lark.grammar import Rule as LarkRule
from lark.grammar import Terminal as LarkTerminal
from lark.lexer import Lexer, LexerState, PatternStr, TerminalDef, Token
from lark.parsers.lalr_analysis import Shift

from xg_grammar import Parser, Rule, Terminal, text

Table: TypeAlias = Any  # Lark's own: states, start_states, end_states


class _NoLexer(Lexer):
    """Takes the place of Lark's lexer, which compares all patterns in strict mode."""

    def __init__(self, conf: object) -> None: ...

    def lex(self, lexer_state: LexerState, parser_state: object) -> Iterator[Token]:
        """Read nothing."""
        return iter(())


def build(grammar: str) -> Parser:
    """The parser of a grammar; lark.exceptions.GrammarError where it has a conflict."""
    # strict: no conflict is resolved silently
    lark = Lark(grammar, parser="lalr", lexer=_NoLexer, strict=True, maybe_placeholders=True)
    table: Table = cast("Any", lark).parser.parser._parse_table
    number = _numbered(table)
    rules = {rule: -1 - position for position, rule in enumerate(lark.rules)}
    return {
        "terminals": [_terminal(each) for each in lark.terminals],
        "rules": [_rule(rule) for rule in lark.rules],
        "states": [
            {
                symbol: number[target] if action is Shift else rules[target]
                for symbol, (action, target) in sorted(table.states[state].items())
            }
            for state in number
        ],
        "start": number[table.start_states["start"]],
        "end": number[table.end_states["start"]],
    }


def _terminal(terminal: TerminalDef) -> Terminal:
    pattern = terminal.pattern
    return {
        "name": terminal.name,
        "pattern": pattern.value,
        "fixed": isinstance(pattern, PatternStr),
    }


def _rule(rule: LarkRule) -> Rule:
    dropped = (isinstance(each, LarkTerminal) and each.filter_out for each in rule.expansion)
    return {
        "origin": rule.origin.name,
        "order": rule.order,
        "alias": rule.alias,
        "expansion": [symbol.name for symbol in rule.expansion],
        "dropped": [position for position, drop in enumerate(dropped) if drop],
        "expand1": rule.options.expand1,
        "empty_indices": [*rule.options.empty_indices],
    }


def _numbered(table: Table) -> dict[int, int]:
    """The states with their numbers, in the order of a walk from the start."""
    number: dict[int, int] = dict.fromkeys(table.start_states.values(), 0)
    order = list(number)
    for state in order:  # grows while it is walked
        for _, (action, target) in sorted(table.states[state].items()):
            if action is Shift and target not in number:
                number[target] = len(order)
                order.append(target)
    return number


def written(parser: Parser) -> str:
    """The parser as JSON with one terminal, rule or state in each line, to be compared.

    Symbols of a state that have one action are one text, which takes a third less room.
    """
    states = [
        {" ".join(names): action for action, names in _by_action(state).items()}
        for state in parser["states"]
    ]
    whole = {**parser, "states": states}
    compact = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?<=[\[,])(?=\{\")", "\n", compact) + "\n"


def _by_action(state: dict[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for symbol, action in state.items():
        found.setdefault(action, []).append(symbol)
    return found


if __name__ == "__main__":
    Path(__file__).with_name("parser.json").write_text(written(build(text())), encoding="utf-8")
