"""An LALR(1) parser on the tables Lark computed: one loop, no recursion, a value per rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from xg.diagnostics.source import Source, Span
from xg.syntax.tokens import Token
from xg_grammar import Rule, Tables

Action = Callable[..., Any]  # called with the span of a rule and its children


class _Reduction(NamedTuple):
    """A rule made ready: what to pick, and what to make of it."""

    origin: str
    size: int
    picks: list[int | list[int] | None] | None  # None: all symbols, as they are
    action: Action | None  # None: the children themselves, as a list
    passes: bool  # its one symbol's value is the rule's value
    inlines: bool


class Parser:
    """The stack of one parse. Feed it tokens; where one does not fit, unwind and feed others."""

    def __init__(self, tables: Tables, source: Source, actions: Mapping[str, Action]) -> None:
        self._table = tables["states"]
        self._accept = tables["accept"]
        self._reductions = [_prepare(rule, actions) for rule in tables["rules"]]
        self._source = source
        self._states = [0]
        self._values: list[Any] = []
        self._starts: list[int] = []
        self._end = 0

    @property
    def value(self) -> object:
        """What the start rule's action made, when the text is accepted; before that, nothing."""
        return self._values[-1] if self._states[-1] == self._accept else None

    @property
    def state(self) -> Mapping[str, int]:
        """The row of the state on top: what each symbol would do there."""
        return self._table[self._states[-1]]

    def feed(self, tokens: Iterable[Token]) -> Token | None:
        """Read tokens: None when the text is accepted, else the first token that does not fit.

        One long loop without calls of its own: most of the time of reading a file is spent here.
        """
        table, reductions, source = self._table, self._reductions, self._source
        states, values, starts = self._states, self._values, self._starts
        for token in tokens:
            kind, start, end = token
            while True:
                target = table[states[-1]].get(kind)
                if target is None:
                    return None if states[-1] == self._accept else token
                if target >= 0:
                    break
                origin, size, picks, action, passes, inlines = reductions[~target]
                if passes:
                    states[-1] = table[states[-2]][origin]
                    continue
                first = starts[-size] if size else self._end
                children = values[-size:] if size else []
                if size:
                    del values[-size:], starts[-size:], states[-size:]
                if picks is not None:
                    children = _pick(children, picks)
                if inlines and len(children) == 1:
                    values.append(children[0])
                elif action is None:
                    values.append(children)
                else:
                    values.append(action(Span(source, first, self._end), *children))
                starts.append(first)
                states.append(table[states[-1]][origin])
            states.append(target)
            values.append(token)
            starts.append(start)
            self._end = end
        raise ValueError("the tokens end without $END")

    def fits(self, kinds: Sequence[str]) -> bool:
        """Whether tokens of these kinds could follow, one after the other."""
        table, states = self._table, list(self._states)
        for kind in kinds:
            target = table[states[-1]].get(kind)
            while target is not None and target < 0:
                reduction = self._reductions[~target]
                if reduction.size:
                    del states[-reduction.size :]
                states.append(table[states[-1]][reduction.origin])
                target = table[states[-1]].get(kind)
            if target is None:
                return kind == "$END" and states[-1] == self._accept
            states.append(target)
        return True

    def expected(self) -> set[str]:
        """The kinds of all tokens that could come next."""
        return {kind for kind in self.state if kind.upper() == kind and self.fits([kind])}

    def awaits(self, symbol: str) -> bool:
        """Whether a `symbol` of the grammar could begin at some place that is still open."""
        return any(symbol in self._table[state] for state in self._states)

    def unwind(self, symbols: Iterable[str]) -> int | None:
        """Give up what was begun until one of the symbols could stand, and let it stand there.

        Returns where the part given up began, or None if nothing was.
        """
        wanted = set(symbols)
        given_up: int | None = None
        while not wanted & self._table[self._states[-1]].keys():
            self._states.pop()
            self._values.pop()
            given_up = self._starts.pop()
        return given_up

    def assume(self, symbol: str) -> None:
        """Go on as if a `symbol` had been read here; its value is None."""
        self._states.append(self.state[symbol])
        self._values.append(None)
        self._starts.append(self._end)


def _prepare(rule: Rule, actions: Mapping[str, Action]) -> _Reduction:
    name, size, picks = rule["name"], rule["size"], rule["picks"]
    return _Reduction(
        rule["origin"],
        size,
        None if picks == list(range(size)) else picks,
        None if name is None else actions.get(name) if rule["inlines"] else actions[name],
        rule["inlines"] and picks == [0] and size == 1,
        rule["inlines"],
    )


def _pick(values: list[Any], picks: list[int | list[int] | None]) -> list[Any]:
    """The children among the values of a rule's symbols; a list in front is extended in place."""
    children: list[Any] = []
    for pick in picks:
        if pick is None:
            children.append(None)
        elif isinstance(pick, int):
            children.append(values[pick])
        elif children:
            children += values[pick[0]]
        else:
            children = values[pick[0]]
    return children
