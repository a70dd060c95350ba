"""Compute the parse tables with Lark and write them: `python -m xg_grammar.build`.

The tables are plain data in a canonical order, so the same grammar always gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, cast

from lark import Lark
from lark.grammar import Rule as LarkRule
from lark.lexer import PatternStr, TerminalDef
from lark.parsers.lalr_analysis import IntParseTable, LALR_Analyzer, Shift

from xg_grammar import Rule, Tables, text

Row: TypeAlias = dict[str, int]


def build(grammar: str) -> Tables:
    """The tables of a grammar; lark.exceptions.GrammarError where it has a conflict."""
    lark = reference(grammar)
    analyzer = LALR_Analyzer(lark.parser.parser_conf, strict=True)  # strict: no silent shifts
    analyzer.compute_lalr()
    table = analyzer.parse_table
    assert isinstance(table, IntParseTable)
    states, accept = _number_states(table, lark.rules)
    return {
        "patterns": {t.name: t.pattern.value for t in lark.terminals if not _is_literal(t)},
        "literals": {t.pattern.value: t.name for t in lark.terminals if _is_literal(t)},
        "ignored": sorted(lark.ignore_tokens),
        "rules": [_rule(rule) for rule in lark.rules],
        "states": states,
        "accept": accept,
    }


def reference(grammar: str) -> Lark:
    """Lark's own parser of the grammar: the tests hold ours against it."""
    return Lark(grammar, parser="lalr", lexer="basic", maybe_placeholders=True)


def written(tables: Tables) -> str:
    """The tables as JSON with one rule or row in each line, for readable differences."""
    lines: list[str] = []
    for key, value in tables.items():
        if key in ("rules", "states"):
            items = ",\n".join(_json(item) for item in cast("list[object]", value))
            lines.append(f"{_json(key)}: [\n{items}\n]")
        else:
            lines.append(f"{_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_literal(terminal: TerminalDef) -> bool:
    return isinstance(terminal.pattern, PatternStr)


def _rule(rule: LarkRule) -> Rule:
    return {
        "name": None if rule.origin.name.startswith("_") else rule.alias or rule.origin.name,
        "origin": rule.origin.name,
        "size": len(rule.expansion),
        "picks": list(_picks(rule)),
        "inlines": rule.options.expand1 and not rule.alias,
    }


def _picks(rule: LarkRule) -> Iterator[int | list[int] | None]:
    """The children of a rule as Lark picks them: no punctuation, lists spliced, gaps filled."""
    absent = _absent(rule)
    for position, symbol in enumerate(rule.expansion):
        yield from [None] * absent[position]
        if symbol.is_term and getattr(symbol, "filter_out", False):
            continue
        spliced = not symbol.is_term and symbol.name.startswith("_")
        yield [position] if spliced else position
    yield from [None] * absent[-1]


def _absent(rule: LarkRule) -> list[int]:
    """How many optional parts are absent before each symbol of a rule, and behind the last."""
    counts = [0]
    for empty in rule.options.empty_indices or [False] * len(rule.expansion):
        if empty:
            counts[-1] += 1
        else:
            counts.append(0)
    return counts


def _number_states(table: IntParseTable, rules: list[LarkRule]) -> tuple[list[Row], int]:
    """The rows, with states numbered as a walk from the start in the symbols' order meets them."""
    states: dict[int, dict[str, tuple[Any, Any]]] = cast("Any", table).states
    number = {table.start_states["start"]: 0}
    order = [table.start_states["start"]]
    for state in order:  # grows while it is walked
        for _, (action, target) in sorted(states[state].items()):
            if action is Shift and target not in number:
                number[target] = len(order)
                order.append(target)
    rows = [
        {
            symbol: number[target] if action is Shift else -1 - rules.index(target)
            for symbol, (action, target) in sorted(states[state].items())
        }
        for state in order
    ]
    return rows, number[table.end_states["start"]]


if __name__ == "__main__":
    Path(__file__).with_name("tables.json").write_text(written(build(text())), encoding="utf-8")
