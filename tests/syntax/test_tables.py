"""The shipped parser is the one that Lark computes from the grammar."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lark import Lark
from lark.exceptions import GrammarError

import xg_grammar
from xg.syntax.build import ModuleBuilder
from xg_grammar import literals, parser, patterns, text
from xg_grammar.build import build, written

SHIPPED = Path(xg_grammar.__file__).with_name("parser.json")


def test_the_parser_is_that_of_the_grammar() -> None:
    assert written(build(text())) == SHIPPED.read_text(encoding="utf-8")


def test_reading_it_gives_what_was_written() -> None:
    assert written(parser()) == SHIPPED.read_text(encoding="utf-8")


def test_another_grammar_has_another_parser() -> None:
    changed = text().replace('"edition" NUMBER', '"edition" NAME')
    assert written(build(changed)) != written(parser())


@pytest.mark.parametrize("seed", ["1", "2"])
def test_bytes_do_not_depend_on_the_hash_seed(seed: str) -> None:
    code = "from xg_grammar.build import build, written; from xg_grammar import text\n"
    code += "import sys; sys.stdout.buffer.write(written(build(text())).encode())"
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert result.stdout == SHIPPED.read_bytes()


def test_a_conflict_is_refused() -> None:
    with pytest.raises(GrammarError, match="Shift/Reduce"):
        build(text().replace("?expr:     sum\n", "?expr:     sum | expr PLUS expr\n"))


def test_no_two_patterns_begin_alike() -> None:
    # the lexer tries them in turn: no text may be the beginning of two kinds of token
    expressions = {kind: re.compile(pattern) for kind, pattern in patterns().items()}
    signs = [text for text in literals() if not text.isalpha()]
    for sample in ["X", "γ", "1", '"a"', "# a", " ", "\t", "\n", *signs]:
        kinds = [kind for kind, pattern in expressions.items() if pattern.match(sample)]
        assert len(kinds) == (sample not in signs), sample


def test_every_rule_has_an_action() -> None:
    # a rule that gives its only child itself (`?rule`), or that splices (`_rule`), needs none
    rules = Lark(text(), parser="lalr", maybe_placeholders=True).rules
    named = {
        rule.alias or rule.origin.name
        for rule in rules
        if rule.alias or not (rule.options.expand1 or rule.origin.name.startswith("_"))
    }
    assert len(named) > 50
    assert [name for name in named if not callable(getattr(ModuleBuilder, name, None))] == []


def test_no_rule_begins_with_one_that_may_be_empty() -> None:
    # a reader knows where a rule begins by its first token
    rules = Lark(text(), parser="lalr", maybe_placeholders=True).rules
    empty = {rule.origin.name for rule in rules if not rule.expansion}
    assert empty == {"start", "attached"}
    assert {rule.expansion[0].name for rule in rules if rule.expansion} & empty == set()
