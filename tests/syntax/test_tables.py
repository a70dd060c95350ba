"""The shipped parse tables are what Lark computes from the grammar."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lark.exceptions import GrammarError

import xg_grammar
from xg_grammar import tables, text
from xg_grammar.build import build, written

SHIPPED = Path(xg_grammar.__file__).with_name("tables.json")


def test_tables_are_those_of_the_grammar() -> None:
    assert written(build(text())) == SHIPPED.read_text(encoding="utf-8")


def test_another_grammar_has_other_tables() -> None:
    changed = text().replace('"edition" NUMBER', '"edition" NAME')
    assert build(changed) != tables()


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
    import re

    patterns = {kind: re.compile(pattern) for kind, pattern in tables()["patterns"].items()}
    literals = [text for text in tables()["literals"] if not text.isalpha()]
    for sample in ["X", "γ", "1", '"a"', "# a", " ", "\t", "\n", *literals]:
        kinds = [kind for kind, pattern in patterns.items() if pattern.match(sample)]
        assert len(kinds) == (sample not in literals), sample
