"""Lark's LALR parser of the grammar, and one text being read by it, straight to trees.

The parser is made from its data, once for each thread: its actions belong to the reader at work.

After an error, a repair is accepted only together with the next token, so it can't loop. Error
rules in the grammar would conflict, and a search for the cheapest repair is slow and seldom finds
what the author meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from threading import local
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

from lark import Tree, UnexpectedToken
from lark.parse_tree_builder import ParseTreeBuilder
from lark.parsers.lalr_interactive_parser import InteractiveParser
from lark.parsers.lalr_parser_state import ParseConf, ParserState

from xg.diagnostics.diagnostic import Source, Span
from xg.syntax.build import ModuleBuilder
from xg.syntax.tokens import Token
from xg_grammar.load import lark_rules, lark_table

_Parser: TypeAlias = Any  # InteractiveParser, whose types are unknown in part


class Reader:
    """One text being read. Feed it tokens; where one does not fit, unwind and feed others.

    `value` is the tree of the text when it is accepted; before that, nothing.
    """

    def __init__(self, source: Source, builder: ModuleBuilder) -> None:
        self.value: object = None
        self._source = source
        self._builder = builder
        self._parser: _Parser = _LANGUAGE.parser()
        state = self._parser.parser_state
        self._states: list[int] = state.state_stack
        self._values: list[object] = state.value_stack
        self._table: Mapping[int, Mapping[str, tuple[object, int]]] = state.parse_conf.states
        self._starts: dict[int, int] = {}  # of the values, by their place in the stack
        self._end = 0  # of the last token

    @property
    def choices(self) -> Mapping[str, tuple[object, int]]:
        """The symbols of the grammar that the state on top knows, with what they would do."""
        return self._table[self._states[-1]]

    def feed(self, tokens: Iterable[Token]) -> Token | None:
        """Read tokens: None when the text is accepted, else the first token that does not fit."""
        feed, values, starts = self._parser.feed_token, self._values, self._starts
        _LANGUAGE.reader = self
        for token in tokens:
            try:
                self.value = feed(token)
            except UnexpectedToken:
                return token
            starts[len(values) - 1] = token.start
            self._end = token.end
        return None

    def act(self, action: Callable[..., object], children: list[object]) -> object:
        """The value of a rule: what an action of the builder makes of its place and children.

        The values of the rule's symbols have been taken from the stack; its own is put there next.
        """
        return action(self._builder, Span(self._source, self._start(), self._end), *children)

    def _start(self) -> int:
        """Where the value begins that was taken from the stack last: its first token is noted.

        A value without tokens begins behind the last one. No rule begins with one.
        """
        return self._starts.get(len(self._values), self._end)

    def fits(self, kinds: Sequence[str]) -> bool:
        """Whether tokens of these kinds could follow, one after the other."""
        trial = self._parser.copy(deepcopy_values=False)
        trial.parser_state.parse_conf = copy(trial.parser_state.parse_conf)
        trial.parser_state.parse_conf.callbacks = {}
        try:
            for kind in kinds:
                trial.feed_token(Token(kind, "", self._end))
        except UnexpectedToken:
            return False
        return True

    def beginnings(self) -> frozenset[str]:
        """The symbols of the grammar that could begin with a name here; none where none fits."""
        trial = self._parser.copy(deepcopy_values=False)
        trial.parser_state.parse_conf = copy(trial.parser_state.parse_conf)
        trial.parser_state.parse_conf.callbacks = {}
        try:
            trial.feed_token(Token("NAME", "", self._end))
        except UnexpectedToken:
            return frozenset()
        return frozenset(self._table[trial.parser_state.state_stack[-2]])

    def expected(self) -> frozenset[str]:
        """The kinds of all tokens that could come next."""
        return frozenset(kind for kind in self.choices if kind.isupper() and self.fits([kind]))

    def awaits(self, symbol: str) -> bool:
        """Whether a `symbol` of the grammar could begin at some place that is still open."""
        return any(symbol in self._table[state] for state in self._states)

    def unwind(self, symbols: Iterable[str]) -> int | None:
        """Give up unfinished rules until one of the symbols could come next.

        Returns the start of the part given up, or None if there is none.
        """
        sought = set(symbols)
        given_up: int | None = None
        while not sought & self.choices.keys():
            self._states.pop()
            self._values.pop()
            given_up = self._start()
        return given_up

    def assume(self, symbol: str) -> None:
        """Continue as if a `symbol` had been read here; its value is None."""
        _, target = self.choices[symbol]
        self._starts[len(self._values)] = self._end
        self._states.append(target)
        self._values.append(None)


class _Language(local):
    """Lark's parser of the grammar in one thread; each action is called by the reader at work."""

    reader: Reader

    def __init__(self) -> None:
        rules = lark_rules()
        names = [name for name in dir(ModuleBuilder) if not name.startswith("_")]
        actions = SimpleNamespace(**{name: self._action(name) for name in names})
        builder = cast("Any", ParseTreeBuilder(rules, Tree, maybe_placeholders=True))
        self._conf = ParseConf(lark_table(rules), builder.create_callback(actions), "start")

    def parser(self) -> _Parser:
        """A parser at the start of a text."""
        # Lark's own `parse_interactive` would need its `Lark`, which takes much longer to load than
        # our table. Tokens are fed one by one, so there is no lexer, whose interface is not public.
        return cast("_Parser", InteractiveParser)(
            None, cast("Any", ParserState)(self._conf, None), None
        )

    def _action(self, rule: str) -> Callable[[list[object]], object]:
        action = getattr(ModuleBuilder, rule)
        return lambda children: self.reader.act(action, children)


_LANGUAGE = _Language()
