"""Our lexer reads what Lark's reads; the loaded parser stops where one of the grammar does."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from lark import Lark
from lark.exceptions import UnexpectedToken
from program_files import PROGRAMS, read

from xg.diagnostics.diagnostic import Source
from xg.syntax.build import ModuleBuilder
from xg.syntax.parse import parse
from xg.syntax.reader import Reader
from xg.syntax.tokens import StatementTokens, tokenize
from xg_grammar import literals, text

FromLark: TypeAlias = Any  # its own types leave the type of texts unknown

# Enough of each for random texts that are sometimes right for a while.
WORDS = [*literals(), *["X", "W_Q", "γ", "1", "2.5e-3", '"title"', "\n"] * 6]


@pytest.fixture(scope="module")
def lark() -> FromLark:
    return Lark(text(), parser="lalr", lexer="basic", maybe_placeholders=True)


def test_control_the_programs_are_there() -> None:
    assert len(PROGRAMS) == 15


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_same_tokens(lark: FromLark, path: Path) -> None:
    assert ours(read(path)) == theirs(lark, read(path))


@pytest.mark.parametrize("seed", range(40))
def test_same_verdict_on_random_words(lark: FromLark, seed: int) -> None:
    rng = random.Random(seed)
    words = ["dim" if rng.random() < 0.5 else "block", *rng.choices(WORDS, k=rng.randrange(1, 30))]
    source = Source("random", " ".join(words))
    if len(tokenize(source).problems) > 0:
        return  # `==` and its like are tokens only for us
    assert ours(source) == theirs(lark, source)
    assert our_misfit(source) == their_misfit(lark, source)


def test_control_the_verdicts_differ(lark: FromLark) -> None:
    good, bad = Source("good", "dim X"), Source("bad", "dim X X")
    assert (our_misfit(good), our_misfit(bad)) == (None, ("NAME", 6))
    assert (their_misfit(lark, good), their_misfit(lark, bad)) == (None, ("NAME", 6))


def ours(source: Source) -> list[tuple[str, int, int]]:
    tokens, _, problems = tokenize(source)
    assert not problems
    return [(token.type, token.start, token.end) for token in tokens[:-1]]


def theirs(lark: FromLark, source: Source) -> list[tuple[str, int | None, int | None]]:
    return [(token.type, token.start_pos, token.end_pos) for token in lark.lex(source.text)]


def our_misfit(source: Source) -> tuple[str, int] | None:
    """The first token that does not fit, and its offset."""
    reader = Reader(source, ModuleBuilder(source))
    misfit = reader.feed(StatementTokens(source, tokenize(source).tokens))
    return None if misfit is None else (misfit.type, misfit.start)


def their_misfit(lark: FromLark, source: Source) -> tuple[str, int] | None:
    parser = lark.parse_interactive("")
    for token in StatementTokens(source, tokenize(source).tokens):
        try:
            parser.feed_token(token)
        except UnexpectedToken:
            return token.type, token.start
    return None


def test_threads_read_at_the_same_time() -> None:
    # the parser's actions belong to the reader at work in their thread
    sources = [read(path) for path in PROGRAMS]
    alone = [repr(parse(source)) for source in sources]
    with ThreadPoolExecutor(4) as threads:
        assert list(map(repr, threads.map(parse, sources))) == alone
