"""A small reader of TextMate grammars: enough for ours, as an editor's does it, line by line.

Of the rules that match first in a line the first one listed wins; a rule with `begin` goes on until
its `end` matches, also over lines. The answer of an editor's own reader is the same for every file
of the repository, which was seen once; it needs another language than this one to say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

Rule = Mapping[str, Any]
Piece = tuple[int, int, str]  # from an offset to an offset of the text, and the innermost scope


def pieces(grammar: Rule, text: str) -> list[Piece]:
    """Every part of a text that has a scope of its own, in order."""
    found: list[Piece] = []
    open_rules: list[Rule] = [grammar]
    start = 0
    for line in text.split("\n"):
        for begin, end, scope in _line(grammar, line, open_rules):
            found.append((start + begin, start + end, scope))
        start += len(line) + 1
    return found


def _line(grammar: Rule, line: str, open_rules: list[Rule]) -> Iterator[Piece]:
    place = 0
    line += "\n"
    stuck: set[tuple[int, int]] = set()
    while True:
        rule = open_rules[-1]
        ending = _compiled(rule["end"]).search(line, place) if "end" in rule else None
        best = _first(grammar, rule, line, place)
        if ending and (best is None or ending.start() <= best[1].start()):
            yield from _captured(ending, rule.get("endCaptures", {}))
            open_rules.pop()
            place = ending.end()
        elif best is not None:
            chosen, match = best
            scopes = {"0": {"name": chosen["name"]}} if "name" in chosen else {}
            captures = chosen.get("captures") or chosen.get("beginCaptures") or scopes
            yield from _captured(match, captures)
            place = match.end()
            if "begin" in chosen:
                open_rules.append(chosen)
        else:
            return
        assert (place, len(open_rules)) not in stuck, "the grammar does not move on"
        stuck.add((place, len(open_rules)))


def _first(grammar: Rule, rule: Rule, line: str, place: int) -> tuple[Rule, re.Match[str]] | None:
    best: tuple[Rule, re.Match[str]] | None = None
    for candidate in _flat(grammar, rule):
        match = _compiled(candidate.get("match") or candidate["begin"]).search(line, place)
        if match and (best is None or match.start() < best[1].start()):
            best = candidate, match
    return best


def _flat(grammar: Rule, rule: Rule) -> Iterator[Rule]:
    """The rules inside a rule, with what they include in its place."""
    waiting = list(reversed(rule["patterns"]))
    while waiting:
        inner = waiting.pop()
        if "include" in inner:
            waiting.append(grammar["repository"][inner["include"].removeprefix("#")])
        elif "match" in inner or "begin" in inner:
            yield inner
        else:
            waiting += reversed(inner["patterns"])


def _captured(match: re.Match[str], captures: Mapping[str, Rule]) -> Iterator[Piece]:
    for group, scope in captures.items():
        if match[int(group)]:
            yield (*match.span(int(group)), scope["name"])


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.MULTILINE)
