"""Lark's rules and LALR table of the grammar, from the shipped parser.

Lark's own serialized form takes four times as long to load: it has each symbol of each rule.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

from lark.grammar import NonTerminal, RuleOptions, Symbol, Terminal
from lark.grammar import Rule as LarkRule
from lark.parsers.lalr_analysis import ParseTable, Reduce, Shift

from xg_grammar import Rule, parser

Table: TypeAlias = Any  # Lark's own, whose types are unknown in part


class _OwnRule(LarkRule):
    """A rule that is equal to itself alone: found at once among the actions, at every reduction."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__  # pyright: ignore[reportAssignmentType]


def lark_rules() -> list[LarkRule]:
    """The rules of the grammar, as Lark has them."""
    return [_rule(rule) for rule in parser()["rules"]]


def lark_table(rules: list[LarkRule]) -> Table:
    """Lark's LALR table over these rules."""
    data = parser()
    states = [
        {
            symbol: (Shift, target) if target >= 0 else (Reduce, rules[-1 - target])
            for symbol, target in actions.items()
        }
        for actions in data["states"]
    ]
    return ParseTable(dict(enumerate(states)), {"start": data["start"]}, {"start": data["end"]})


def _rule(rule: Rule) -> LarkRule:
    symbols = [_symbol(name) for name in rule["expansion"]]
    for position in rule["dropped"]:
        symbols[position] = Terminal(symbols[position].name, filter_out=True)
    options = RuleOptions(expand1=rule["expand1"], empty_indices=tuple(rule["empty_indices"]))
    return _OwnRule(NonTerminal(rule["origin"]), symbols, rule["order"], rule["alias"], options)


@cache
def _symbol(name: str) -> Symbol:
    is_terminal = name.lstrip("_")[0].isupper()
    return Terminal(name) if is_terminal else NonTerminal(name)
