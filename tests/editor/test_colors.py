"""The TextMate grammar colors the tokens of the compiler, each whole and as what it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from editor.textmate import Piece, pieces
from editors.textmate import PATTERNS, SCOPES, grammar, written

from xg.diagnostics.diagnostic import Source
from xg.frontend.project import library_files
from xg.syntax import ast
from xg.syntax.ast import walk
from xg.syntax.parse import parse
from xg.syntax.tokens import tokenize
from xg_grammar import literals, patterns

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "editors" / "vscode" / "syntaxes" / "xg.tmLanguage.json"
REFERENCE = (ROOT / "grammar" / "README.md").read_text(encoding="utf-8")
TEXTS = {
    **{file.stem: file.read_text(encoding="utf-8") for file in library_files()},
    **{
        f"reference {number}": text
        for number, text in enumerate(re.findall(r"^```xg\n(.*?)^```", REFERENCE, re.M | re.S))
    },
    "tight": 'dim B_1,D=2*B_1^2 # C\nblock F"T"(γ[B_1])->Y[]{γ->mean[B_1]:Y}\nplan P of F{*[_,..]}',
}
each_text = pytest.mark.parametrize("name", TEXTS)


def test_the_shipped_grammar_is_the_one_that_is_made(golden: Callable[[Path, str], None]) -> None:
    golden(SHIPPED, written())
    assert json.loads(written()) == grammar()


def test_every_token_of_the_language_has_a_scope() -> None:
    assert SCOPES.keys() == set(literals().values())
    assert PATTERNS.keys() == patterns().keys() - {"SPACE", "_NL"}


@cache
def colored(name: str) -> list[Piece]:
    """The parts of a text; two tests look at them."""
    return pieces(grammar(), TEXTS[name])


@each_text
def test_every_token_is_colored_whole_and_as_what_it_is(name: str) -> None:
    source = Source(name, TEXTS[name])
    tokens, comments, problems = tokenize(source)
    assert problems == []
    wanted = {
        (token.start, token.end): PATTERNS.get(token.type) or (SCOPES[token.type],)
        for token in (*tokens, *comments)
        if token.type not in ("_NL", "$END")
    }
    found = {(start, end): scope for start, end, scope in colored(name)}
    assert found.keys() == wanted.keys()
    wrong = [place for place, scope in found.items() if scope not in wanted[place]]
    assert [source.text[start:end] for start, end in wrong] == []


@each_text
def test_place_tells_the_color_of_a_name(name: str) -> None:
    source = Source(name, TEXTS[name])
    found = {start: scope for start, _, scope in colored(name)}
    for tree in walk(parse(source)):
        match tree:
            case ast.NodeUse(operator=operator) if operator.span.text[0].isalpha():
                assert found[operator.span.start] == "entity.name.function.xg", operator.span.text
            case ast.Label(ports=(first, *_)):
                assert found[first.name.span.start] == "variable.other.edge.xg"
            case ast.Shape() | ast.DimDecl():
                for inner in walk(tree):
                    if isinstance(inner, ast.Name):
                        scope = found[inner.span.start]
                        assert scope == "variable.other.constant.dim.xg", tree.span.text
            case ast.Block():
                assert found[tree.name.span.start] == "entity.name.type.xg"
            case _:
                pass


def test_signs_of_the_keyboard_are_colored_in_nodes_as_the_others() -> None:
    text = "block F(X [B]) -> Y [2*B + 1] {\n    X -> @<=W -> +<-b\n      -> * <-c : Y\n}\n"
    found = {start: scope for start, _, scope in pieces(grammar(), text)}
    node = "entity.name.function.node.xg"
    assert [found[text.index(sign)] for sign in ("@", "+<-", "* <-")] == [node] * 3
    assert [found[text.index(sign)] for sign in ("*B", "+ 1")] == ["keyword.operator.xg"] * 2


def test_an_open_bracket_or_head_ends_where_the_next_thing_begins() -> None:
    text = "block F(X [B, D\nblock G(X []) -> Y [] {\n    X -> LN : Y\n}\n"
    found = {text[start:end]: scope for start, end, scope in pieces(grammar(), text)}
    assert found["G"] == "entity.name.type.xg"
    assert found["LN"] == "entity.name.function.xg"
    assert found["Y"] == "variable.other.edge.xg"
