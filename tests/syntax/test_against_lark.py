"""Our lexer and our LALR loop do what Lark does with the same grammar."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from lark import Token
from lark.exceptions import UnexpectedToken
from program_files import PROGRAMS, read

from xg.diagnostics.source import Source, Span
from xg.syntax.lalr import Action, Parser
from xg.syntax.line_ends import StatementTokens
from xg.syntax.tokens import Token as OurToken
from xg.syntax.tokens import tokenize
from xg_grammar import tables, text
from xg_grammar.build import reference

FromLark: TypeAlias = Any  # its own types leave the type of texts unknown

# Enough of each for random texts that are sometimes right for a while.
WORDS = [*tables()["literals"], *["X", "W_Q", "γ", "1", "2.5e-3", '"title"', "\n"] * 6]


@pytest.fixture(scope="module")
def lark() -> FromLark:
    return reference(text())


def test_control_the_programs_are_there() -> None:
    assert len(PROGRAMS) == 15


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_same_tokens(lark: FromLark, path: Path) -> None:
    assert ours(read(path)) == theirs(lark, read(path))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_same_trees(lark: FromLark, path: Path) -> None:
    source = read(path)
    assert our_tree(source) == their_tree(lark, source)


@pytest.mark.parametrize("seed", range(40))
def test_same_verdict_on_random_words(lark: FromLark, seed: int) -> None:
    rng = random.Random(seed)
    words = ["dim" if rng.random() < 0.5 else "block", *rng.choices(WORDS, k=rng.randrange(1, 30))]
    source = Source("random", " ".join(words))
    if len(tokenize(source).problems) > 0:
        return  # `==` and its like are tokens only for us
    assert ours(source) == theirs(lark, source)
    assert our_tree(source) == their_tree(lark, source)


def test_the_verdicts_of_random_words_differ() -> None:
    good, bad = Source("good", "dim X"), Source("bad", "dim X X")
    assert our_tree(good) == ("start", ("dims", ("size", "X", None)))
    assert our_tree(bad) == ("NAME", 6)


def ours(source: Source) -> list[tuple[str, int, int]]:
    tokens, _, problems = tokenize(source)
    assert not problems
    return [(kind, start, end) for kind, start, end in tokens[:-1]]


def theirs(lark: FromLark, source: Source) -> list[tuple[str, int, int]]:
    return [(token.type, token.start_pos, token.end_pos) for token in lark.lex(source.text)]


def our_tree(source: Source) -> object:
    """The tree as nested tuples, or the first token that does not fit and its offset."""

    def made(name: str) -> Action:
        def make(_: Span, *children: object) -> tuple[object, ...]:
            return (name, *(_text(source, child) for child in children))

        return make

    names = {rule["name"] or "" for rule in tables()["rules"]}
    parser = Parser(tables(), source, {name: made(name) for name in names})
    misfit = parser.feed(StatementTokens(source, tokenize(source).tokens))
    return parser.value if misfit is None else (misfit.kind, misfit.start)


def their_tree(lark: FromLark, source: Source) -> object:
    parser = lark.parse_interactive("")
    for kind, start, end in StatementTokens(source, tokenize(source).tokens):
        token = Token(kind, source.text[start:end], start_pos=start)
        try:
            if kind == "$END":
                return _nested(parser.feed_eof(token))
            parser.feed_token(token)
        except UnexpectedToken:
            return kind, start
    raise AssertionError("no end")


def _text(source: Source, child: object) -> object:
    return source.text[child.start : child.end] if isinstance(child, OurToken) else child


def _nested(tree: FromLark) -> object:
    if tree is None or isinstance(tree, Token):
        return tree and str(tree)
    return (tree.data, *map(_nested, tree.children))
