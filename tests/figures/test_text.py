"""Text: the font's widths, the places of sub- and superscripts, names as the seeds set them."""

import pytest

from xg.diagnostics import escape
from xg.figures.draw import font
from xg.figures.draw.font import typeset
from xg.figures.model.richtext import StyledRun, characters, dimension, shape, symbol, tensor

# From the metrics that Helvetica was published with, in thousandths of an em.
HELVETICA = {"A": 667, "W": 944, "a": 556, "i": 222, "m": 833, "[": 278, "0": 556, ",": 278}
HELVETICA_BOLD = {"A": 722, "W": 944, "a": 556, "i": 278, "m": 889, "K": 722}


@pytest.mark.parametrize(("bold", "widths"), [(False, HELVETICA), (True, HELVETICA_BOLD)])
def test_widths_are_helveticas(bold: bool, widths: dict[str, int]) -> None:
    for italic in (False, True):
        face = font.face(bold=bold, italic=italic)
        for character, width in widths.items():
            assert face.width(character) == pytest.approx(width / 1000, abs=0.001)


def test_every_sign_of_the_notation_is_in_every_face() -> None:
    for bold in (False, True):
        for italic in (False, True):
            glyphs = font.face(bold=bold, italic=italic).glyphs
            assert [sign for sign in "⊤⊕⊙•×·Σγβ—√≤" if ord(sign) not in glyphs] == []


def test_a_character_without_a_glyph_takes_room() -> None:
    assert font.face().width("語") == 1.0


def test_symbols() -> None:
    assert characters(symbol("A_out")) == "A_out"
    assert characters(symbol("gamma_1", gradient=True)) == "dγ_1"
    assert characters(symbol("W_up", sup="⊤")) == "W_up^⊤"
    assert characters(shape(["B", "S", "D_ff/N_T"])) == "[B, S, D_ff/N_T]"
    assert characters(dimension("2*D_ff")) == "2·D_ff"
    assert characters(tensor(symbol("X"), None)) == "X"
    assert characters(tensor((), ["D"])) == "[D]"


def test_the_words_of_a_name_keep_their_underscores() -> None:
    """Names of published models are words, and no symbol with a list of subscripts."""
    found = [(run.text, run.sub) for run in symbol("output_hidden_states")]
    assert found == [("output_hidden_states", "")]
    assert [(run.text, run.sub) for run in symbol("input_ids_2")] == [("input_ids", "2")]
    assert [(run.text, run.sub) for run in symbol("W_up_proj")] == [("W", "up_proj")]
    assert [(run.text, run.sub) for run in symbol("W_K_1")] == [("W", "K,1")]
    assert [(run.text, run.sub) for run in dimension("hidden_size")] == [("hidden_size", "")]
    spans = typeset(symbol("W_up_proj"), 10).spans
    assert [span.text for span in spans] == ["W", "up_proj"]


def test_scripts_stand_over_each_other() -> None:
    base, sub, sup = typeset(symbol("W_Q", sup="⊤"), 10).spans
    assert sub.x == sup.x == pytest.approx(base.width)
    assert sup.y < 0 < sub.y
    assert sub.size < base.size


def test_a_script_has_a_script_of_its_own() -> None:
    base, sizes, below = typeset((StyledRun("BC", sub="B,S_k"),), 10).spans
    assert (sizes.text, below.text) == ("B,S", "k")
    assert below.x == pytest.approx(base.width + sizes.width)
    assert 0 < sizes.y < below.y
    assert below.size < sizes.size < base.size


def test_a_line_is_as_wide_as_its_spans() -> None:
    line = typeset(tensor(symbol("W_up"), ["D", "D_ff"]), 12, 9)
    assert line.width == pytest.approx(max(span.x + span.width for span in line.spans))
    assert max(span.size for span in line.spans if span.muted) == 9
    assert max(span.size for span in line.spans) == 12


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\u202e", "\u2028", "\ud800", "\ufeff"])
def test_harmful_characters_are_replaced(character: str) -> None:
    for function in (escape.clean, escape.xml, escape.dot_html):
        assert function(f"a{character}b") == "a\ufffdb"
    assert escape.dot_string(f"a{character}b") == '"a\ufffdb"'
