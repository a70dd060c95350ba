"""The tree-sitter grammar reads every shipped program, and colors tokens as what they are."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from editor.test_colors import TEXTS
from pygments.token import Comment, Keyword, Number, String
from tree_sitter import Language, Node, Parser, Query, QueryCursor, Tree

from xg.diagnostics.diagnostic import Source
from xg.syntax import ast
from xg.syntax.ast import walk
from xg.syntax.parse import parse
from xg.syntax.tokens import GOES_ON_BEFORE, tokenize
from xg_grammar import literals
from xg_grammar.pygments_lexer import XgLexer

FOLDER = Path(__file__).parents[2] / "editors" / "tree-sitter"
HIGHLIGHTS = (FOLDER / "queries" / "highlights.scm").read_text(encoding="utf-8")
# The classes of the lexer of Pygments, and those of the query that say the same.
SAME = {
    Comment.Single: {"comment"},
    String.Double: {"string"},
    Keyword: {"keyword"},
    Number: {"number"},
}


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Language:
    """The generated parser, compiled."""
    library = tmp_path_factory.mktemp("parser") / "xg.so"
    sources = [str(FOLDER / "src" / name) for name in ("parser.c", "scanner.c")]
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, *sources], check=True)
    make = ctypes.CDLL(str(library)).tree_sitter_xg
    make.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    pointer: object = capsule(make(), b"tree_sitter.Language", None)
    return Language(pointer)


def tree_of(language: Language, text: str) -> Tree:
    return Parser(language).parse(text.encode())


def mistakes(node: Node) -> list[str]:
    """Where a tree has an error, as its text."""
    if not node.has_error:
        return []
    if node.is_error or node.is_missing:
        return [f"{node.start_point.row + 1}: {(node.text or b'').decode()}"]
    return [found for child in node.children for found in mistakes(child)]


def classes(language: Language, text: str) -> dict[int, str]:
    """The class of every token by the byte where it begins; the last pattern that fits wins."""
    found: dict[int, tuple[int, str]] = {}
    for pattern, captured in QueryCursor(Query(language, HIGHLIGHTS)).matches(
        tree_of(language, text).root_node
    ):
        for name, nodes in captured.items():
            for node in nodes:
                found[node.start_byte] = max(found.get(node.start_byte, (-1, "")), (pattern, name))
    return {start: name for start, (_, name) in found.items()}


def lexed(text: str) -> Iterator[tuple[int, str, Any]]:
    """The tokens of Pygments with the bytes where they begin."""
    for start, kind, part in XgLexer().get_tokens_unprocessed(text):
        yield len(text[:start].encode()), part, kind


@pytest.mark.parametrize("name", TEXTS)
def test_every_program_is_read_without_an_error(language: Language, name: str) -> None:
    assert mistakes(tree_of(language, TEXTS[name]).root_node) == []


def test_every_document_and_found_program_is_read_without_an_error(language: Language) -> None:
    root = FOLDER.parents[1]
    files = [path for folder in ("docs", "examples", "tests/fuzz/found", "compiler")
             for path in (root / folder).rglob("*.xg")]  # fmt: skip
    assert len(files) > 5
    for path in files:
        assert mistakes(tree_of(language, path.read_text("utf-8")).root_node) == [], path.name


@pytest.mark.parametrize("name", TEXTS)
def test_place_tells_the_class_of_a_name(language: Language, name: str) -> None:
    text = TEXTS[name]
    found = classes(language, text)

    def said(tree: ast.Syntax) -> str:
        return found[len(text[: tree.span.start].encode())]

    for tree in walk(parse(Source(name, text))):
        match tree:
            case ast.NodeUse(operator=operator) if operator.span.text[0].isalpha():
                assert said(operator) == "function", operator.span.text
            case ast.Label(ports=(first, *_)):
                assert said(first.name) == "property"
            case ast.Shape() | ast.DimDecl():
                names = [inner for inner in walk(tree) if isinstance(inner, ast.Name)]
                assert all(said(inner) == "constant" for inner in names), tree.span.text
            case ast.Block() | ast.Plan():
                assert said(tree.name) == "type"
            case _:
                pass


@pytest.mark.parametrize("name", TEXTS)
def test_every_token_has_the_class_that_pygments_gives_it(language: Language, name: str) -> None:
    text = TEXTS[name]
    found = classes(language, text)
    tokens, comments, _ = tokenize(Source(name, text))
    starts = {len(text[: each.start].encode()) for each in (*tokens, *comments)
              if each.type not in ("_NL", "$END")}  # fmt: skip
    assert starts - found.keys() == set()
    compared = {(start, part): kind for start, part, kind in lexed(text) if kind in SAME}
    assert compared
    wrong = {f"{part} is {found[start]}, not {kind}" for (start, part), kind in compared.items()
             if found.get(start) not in SAME[kind]}  # fmt: skip
    assert wrong == set()


def test_words_are_those_of_the_language(language: Language) -> None:
    grammar = json.loads((FOLDER / "src" / "grammar.json").read_text("utf-8"))
    fixed = {each["value"] for each in _rules(grammar["rules"]) if each["type"] == "STRING"}
    words = {word for word in literals() if word.isalpha()}
    assert {each for each in fixed if each.isalpha()} == words
    assert {each for each in fixed if not each.isalnum()} == set(literals()) - words
    assert set(re.findall(r'"([a-z]+)"', HIGHLIGHTS)) == words


def test_a_line_goes_on_before_what_the_compiler_says(language: Language) -> None:
    kinds = {kind: text for text, kind in literals().items()}
    scanner = (FOLDER / "src" / "scanner.c").read_text("utf-8")
    (listed,) = re.findall(r"WORDS\[\] = \{(.*)\}", scanner)
    words = {kinds[kind] for kind in GOES_ON_BEFORE if kinds[kind].isalpha()}
    assert set(re.findall(r'"(\w+)"', listed)) == words
    text = "block F(X [B]) -> Y [B]\n{\n    X\n    # why\n    -> S[B]\n      if a = b\n    : Y\n}\n"
    assert mistakes(tree_of(language, text).root_node) == []
    assert mistakes(tree_of(language, text.replace("-> S", "S")).root_node)


def _rules(rule: object) -> Iterator[dict[str, str]]:
    if isinstance(rule, dict):
        parts = cast("dict[str, object]", rule)
        if isinstance(parts.get("type"), str):
            yield cast("dict[str, str]", parts)
        for each in parts.values():
            yield from _rules(each)
    elif isinstance(rule, list):
        for each in cast("list[object]", rule):
            yield from _rules(each)
