"""One name for each spelling, and one kind of token for each sign known from elsewhere."""

from __future__ import annotations

import pytest
from syntax.parsed import mistakes

from xg.diagnostics.diagnostic import Source
from xg.syntax.parse import parse_partly
from xg.syntax.spelling import FOREIGN, GREEK, SPELLED_OUT, ascii_name, greek_name
from xg_grammar import literals, patterns


@pytest.mark.parametrize(
    ("greek", "spelled"),
    [
        ("γ", "gamma"),
        ("γ_1", "gamma_1"),
        ("dγ_1", "dgamma_1"),
        ("b_Σ", "b_Sigma"),
        ("W_Q", "W_Q"),
        ("gammas", "gammas"),
        ("alphabeta", "alphabeta"),
        ("alpha", "alpha"),
        ("d_γ", "d_gamma"),
    ],
)
def test_there_and_back(greek: str, spelled: str) -> None:
    assert ascii_name(greek) == ascii_name(spelled) == spelled
    assert greek_name(spelled) == greek_name(greek) == greek


def test_the_letters_are_those_of_the_grammar() -> None:
    pattern = patterns()["NAME"]
    assert {letter for letter in pattern if not letter.isascii()} == set(GREEK)


def test_every_letter_is_named_after_itself() -> None:
    import unicodedata

    for letter, name in {**GREEK, **SPELLED_OUT}.items():
        words = unicodedata.name(letter).split()
        assert name.upper() in [*words, "MU" if "MICRO" in words else "", _final(words)]
        assert name[0].isupper() == ("CAPITAL" in words)


def _final(words: list[str]) -> str:
    return words[-1].replace("LAMDA", "LAMBDA")


@pytest.mark.parametrize("sign", FOREIGN)
def test_a_foreign_sign_is_explained(sign: str) -> None:
    assert FOREIGN[sign].kind in {*literals().values(), "STRING"}
    assert "XG0104" in {code for code, _, _ in mistakes(f"dim A = 1 {sign} 2")}


@pytest.mark.parametrize("sign", list(literals()))
def test_a_sign_of_the_language_is_not_foreign(sign: str) -> None:
    assert sign not in FOREIGN
    assert "XG0104" not in {code for code, _, _ in mistakes(f"dim A = 1 {sign} 2")}


def test_a_letter_that_looks_latin_is_one_error_whose_fix_spells_all_of_them() -> None:
    text = "block F(x [B]) -> Y [B] {\n    x -> tanh : α\n    α -> *<-α : ν\n    ν -> tanh : Y\n}\n"
    parsed = parse_partly(Source("net.xg", text))
    assert [each.labels[0].span.text for each in parsed.diagnostics] == ["α", "ν"]
    edits = [edit for each in parsed.diagnostics for fix in each.fixes for edit in fix.edits]
    for span, spelled in sorted(edits, key=lambda edit: -edit[0].start):
        text = text[: span.start] + spelled + text[span.end :]
    assert text.count("alpha") == 3
    assert text.count("nu") == 2
    assert not parse_partly(Source("net.xg", text)).diagnostics
