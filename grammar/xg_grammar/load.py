"""Lark's rules and LALR table of the grammar, from the shipped parser.

Lark's own serialized form takes four times as long to load: it has each symbol of each rule.

The tables are JSON because Lark's own serialized form makes an object for every symbol and takes 10
ms to load instead of 4. Lark's caches are pickles, which can run code.
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


class _Entries(dict[int, tuple[object, object]]):
    """The meaning of each number in the table, made once, for the table has thousands."""

    def __init__(self, rules: list[LarkRule]) -> None:
        super().__init__()
        self._rules = rules

    def __missing__(self, target: int) -> tuple[object, object]:
        made = (Shift, target) if target >= 0 else (Reduce, self._rules[-1 - target])
        self[target] = made
        return made


def lark_rules() -> list[LarkRule]:
    """The rules of the grammar, as Lark has them."""
    return [_rule(rule) for rule in parser()["rules"]]


def lark_table(rules: list[LarkRule]) -> Table:
    """Lark's LALR table over these rules."""
    data = parser()
    entry = _Entries(rules).__getitem__
    states = [
        dict(zip(actions, map(entry, actions.values()), strict=True)) for actions in data["states"]
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
