"""The canonical layout: the same tree, the same comments, the same again when applied twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from program_files import PROGRAMS, read

from xg.diagnostics.diagnostic import Source
from xg.syntax.format import format
from xg.syntax.parse import parse
from xg.syntax.tokens import CLOSES, GOES_ON_AFTER, GOES_ON_BEFORE, OPENS, tokenize

LAYOUT = Path(__file__).parent / "layout"
UNTIDY = sorted(LAYOUT.glob("*.xg"))
KEYBOARD = {"•": "@", "⊕": "+", "⊙": "*", "×": "*", "±": "+/-"}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_programs_are_laid_out(path: Path) -> None:
    assert format(read(path)) == read(path).text


@pytest.mark.parametrize("path", UNTIDY, ids=lambda path: path.stem)
def test_as_in_the_golden(path: Path, golden: Callable[[Path, str], None]) -> None:
    text = format(read(path))
    golden(path.with_suffix(".formatted"), text)
    check(read(path), text)


def test_no_golden_without_a_case() -> None:
    assert [path.stem for path in sorted(LAYOUT.glob("*.formatted"))] == [p.stem for p in UNTIDY]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_blanks_and_keyboard_spellings_do_not_matter(path: Path) -> None:
    rng = random.Random(path.stem)
    changed = respelled(read(path), rng, breaks=0)
    assert changed != read(path).text
    assert format(Source("changed.xg", changed)) == read(path).text


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_other_line_breaks_and_more_comments(path: Path) -> None:
    rng = random.Random(path.stem)
    changed = Source("changed.xg", respelled(read(path), rng, breaks=0.15))
    assert parse(changed) == parse(read(path))
    check(changed, format(changed))


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("", ""),
        ("\n\n", ""),
        ("\n\n#c\n\n\n\n# d  \n", "#c\n\n# d\n"),
        ("dim B\r\ndim C", "dim B\ndim C\n"),
        ("dim gamma_1,dgamma, gammas, Gamma,sub_beta2", "dim γ_1, dγ, gammas, Γ, sub_β2\n"),
        ("plan A=B*C", "plan A = B × C\n"),
        ("block F(X [])->Y []{X->S:Y}", "block F(X []) -> Y [] {\n    X -> S : Y\n}\n"),
        ("block F(X [])->Y []\n# c\n{\n}", "block F(X []) -> Y [] {\n    # c\n}\n"),
        (
            "plan P of F {\n* [..]\na.*.b [..]\n}",
            "plan P of F {\n    *     [..]\n    a.*.b [..]\n}\n",
        ),
    ],
)
def test_small_texts(text: str, formatted: str) -> None:
    assert format(Source.from_bytes("a.xg", text.encode())) == formatted


def test_the_check_can_fail() -> None:
    source = Source("a.xg", "dim B # c\n")
    for wrong in ["dim C  # c\n", "dim B\n", "dim  B  # c\n"]:
        with pytest.raises(AssertionError):
            check(source, wrong)


def check(source: Source, text: str) -> None:
    """The text is the source's layout: it says the same, and its own layout is itself."""
    formatted = Source("formatted.xg", text)
    assert parse(formatted) == parse(source)
    assert comments(formatted) == comments(source)
    assert format(formatted) == text


def comments(source: Source) -> list[str]:
    return [source.text[c.start : c.end].rstrip() for c in tokenize(source).comments]


def respelled(source: Source, rng: random.Random, breaks: float) -> str:
    """The program with other blanks, spellings and, where a line may break, breaks and comments."""
    tokens, remarks, _ = tokenize(source)
    pieces: list[str] = []
    last, depth = "LBRACE", 0
    for token in sorted([*tokens[:-1], *remarks], key=lambda token: token.start):
        kind, start, end = token.type, token.start, token.end
        text = source.text[start:end]
        may_break = depth > 0 or last in GOES_ON_AFTER or kind in GOES_ON_BEFORE
        if may_break and kind not in ("_NL", "COMMENT") and rng.random() < breaks:
            pieces.append(rng.choice(["\n", f"  # {len(pieces)}\n", "\n\n"]))
        if kind == "NAME":
            text = text.replace("γ", "gamma").replace("β", "beta").replace("μ", "mu")
        needs_blank = text[0].isalnum() or text[0] in '"_(['
        keeps_line = kind in ("_NL", "COMMENT")
        blank = "" if keeps_line and not pieces else rng.choice([" ", "\t", "   "])
        pieces += ["" if kind == "_NL" else blank if needs_blank or rng.random() < 0.7 else " "]
        pieces.append(KEYBOARD.get(text, text))
        depth += (kind in OPENS) - (kind in CLOSES)
        last = kind if kind != "COMMENT" else last
    return "".join(pieces)
