"""Text for each language that pictures and pages are written in, sign by sign."""

from __future__ import annotations

import json

import pytest

from xg.diagnostics.escape import (
    clean,
    code_block,
    code_span,
    dot_html,
    dot_string,
    markdown,
    pdf_text,
    script_data,
    slug,
    stems,
    xml,
)
from xg.diagnostics.terminal import printable, width

SIGNS = "&<>\"'[]\\`*_|~$"


def test_signs_of_markup_are_spelled() -> None:
    assert xml(SIGNS) == "&amp;&lt;&gt;&quot;&#39;[]\\`*_|~$"
    assert dot_html("[&]") == "&#91;&amp;&#93;"
    assert dot_string('\\N "x"') == '"\\\\N \\"x\\""'
    assert pdf_text("é(") == "<FEFF00E90028>"


@pytest.mark.parametrize("code", [0x00, 0x08, 0x0B, 0x0C, 0x0E, 0x1F, 0x7F, 0x9F, 0xFEFF, 0xFFFE])
def test_characters_that_no_picture_may_hold(code: int) -> None:
    assert clean(f"a{chr(code)}b") == "a\ufffdb"


def test_characters_beside_them_stay_and_lines_are_joined() -> None:
    assert clean("\u200a\u2010\u2027\u202f\u205f") == "\u200a\u2010\u2027\u202f\u205f"
    assert clean("\u200b\u200f\u2028\u202e\u2060\u2069\u061c") == 7 * "\ufffd"
    assert clean("a\rb\nc\td") == "a b c d"


def test_data_of_a_script_stay_json() -> None:
    text = script_data({"é": ["</script>", "&", 1.5]})
    assert json.loads(text) == {"é": ["</script>", "&", 1.5]}
    assert text == '{"é":["\\u003c/script\\u003e","\\u0026",1.5]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_data(float("nan"))


def test_markdown_means_nothing() -> None:
    assert markdown(" # a\n+ [b](c) ") == "\\# a + \\[b\\](c)"
    assert [markdown(text) for text in ("1. x", "12) x", "123. x", "x 1.")] == [
        "1\\. x",
        "12\\) x",
        "123. x",
        "x 1.",
    ]
    assert code_span("a``b") == "``` a``b ```"
    assert code_block("a\n```\nb\x00") == "````\na\n```\nb\ufffd\n````"
    assert code_block("a") == "```\na\n```"


def test_names_of_files() -> None:
    assert [slug(name) for name in ("COM9", "com10", "lpt0", "NUL", "nuls")] == [
        "com9_",
        "com10",
        "lpt0_",
        "nul_",
        "nuls",
    ]
    assert slug("a" * 60) == "a" * 60
    assert slug("a" * 61) == f"{'a' * 51}_35d5fc17"
    assert slug("A b--c_") == "a_b_c"
    assert stems("f", ["G", "g", "g "]) == {"G": "f_g", "g": "f_g_2", "g ": "f_g_3"}


def test_what_a_terminal_shows() -> None:
    assert printable("a\tb\x1b\udc80\u202e") == "a    b<U+001B><byte 80><U+202E>"
    ends = "<U+DC7F><byte 80><byte FF><U+DD00>"
    assert printable("\udc7f\udc80\udcff\udd00") == ends
    assert [width(text) for text in ("ab", "é", "e\u0301", "日本", "ｗ")] == [2, 1, 1, 4, 2]
