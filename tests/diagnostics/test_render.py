"""Errors as people read them."""

from __future__ import annotations

import pytest

from xg.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticError,
    Label,
    Source,
    Span,
    as_data,
    quoted,
    render,
)

MLP = Source(
    "mlp.xg",
    "# one\n\n\n\n\n    param W_down [D_ff, D]\n\n\n\n\n\n\n\n    H -> •<=W_down -> ...\n",
)


def span(source: Source, text: str) -> Span:
    start = source.text.index(text)
    return Span(source, start, start + len(text))


def shown(*labels: Label, color: bool = False) -> str:
    return render([Diagnostic("XG0000", "message", labels)], color)


def test_the_layout_of_the_language_document() -> None:
    diagnostic = Diagnostic(
        "XG0301",
        "matmul contracts D with D_ff",
        (
            Label(span(MLP, "•"), "first operand [B, S, D] ends in D"),
            Label(span(MLP, "D_ff"), "second operand starts with D_ff", primary=False),
        ),
        help=("did you mean W_up [D, D_ff]?",),
    )
    assert render([diagnostic], color=False) == (
        "error[XG0301]: matmul contracts D with D_ff\n"
        "  ┌─ mlp.xg:14:10\n"
        "14│     H -> •<=W_down -> ...\n"
        "  │          ^ first operand [B, S, D] ends in D\n"
        "  │\n"
        " 6│     param W_down [D_ff, D]\n"
        "  │                   ---- second operand starts with D_ff\n"
        "  = help: did you mean W_up [D, D_ff]?"
    )


def test_without_a_place() -> None:
    diagnostic = Diagnostic("XG0401", "Z is a partial sum", notes=("one\ntwo",), help=("put AR",))
    assert render([diagnostic], color=False) == (
        "error[XG0401]: Z is a partial sum\n  = note: one\n          two\n  = help: put AR"
    )


def test_places_in_several_files() -> None:
    other = Source("other.xg", "dim D\n")
    labels = (Label(span(MLP, "H")), Label(span(other, "D"), "here", primary=False))
    assert shown(*labels, Label(span(MLP, "•"))).split("\n")[1:] == [
        "  ┌─ mlp.xg:14:5",
        "14│     H -> •<=W_down -> ...",
        "  │     ^",
        "  ┌─ other.xg:1:5",
        " 1│ dim D",
        "  │     - here",
        "  ┌─ mlp.xg:14:10",
        "14│     H -> •<=W_down -> ...",
        "  │          ^",
    ]


def test_two_places_in_one_line() -> None:
    labels = (Label(span(MLP, "•"), "a"), Label(span(MLP, "H"), "b", primary=False))
    assert shown(*labels).split("\n")[2:] == [
        "14│     H -> •<=W_down -> ...",
        "  │          ^ a",
        "  │     - b",
    ]


@pytest.mark.parametrize(
    ("text", "marked", "line", "underline"),
    [
        ("dim\tB", "B", "dim    B", "       ^"),
        ("注意 B", "B", "注意 B", "     ^"),
        ("注意 B", "意", "注意 B", "  ^^"),
        ("e\u0301 B", "B", "e\u0301 B", "  ^"),
        ("\u202eB", "B", "<U+202E>B", "        ^"),
        ("\udcffB", "\udcff", "<byte FF>B", "^^^^^^^^^"),
        ("\x1b[31mB", "B", "<U+001B>[31mB", "            ^"),
        ("B", "", "B", "^"),
        ("", "", "", "^"),
        ("X -> S\n-> B", "X -> S\n-> B", "X -> S", "^^^^^^"),
    ],
)
def test_underlines(text: str, marked: str, line: str, underline: str) -> None:
    lines = shown(Label(span(Source("a.xg", text), marked))).split("\n")
    assert lines[2:] == [f"1│ {line}".rstrip(), f" │ {underline}"]


def test_of_a_long_line_the_part_around_the_span_is_shown() -> None:
    source = Source("a.xg", "x" * 500_000 + "HERE" + "y" * 500_000)
    _, _, line, underline = shown(Label(span(source, "HERE"))).split("\n")
    assert len(line) < 140
    assert line[underline.index("^") :].startswith("HERE")
    assert line.startswith("1│ …x")
    assert line.endswith("y…")


def test_a_long_span_is_underlined_as_far_as_it_is_shown() -> None:
    source = Source("a.xg", "x" * 500_000)
    _, _, line, underline = shown(Label(Span(source, 10, 500_000))).split("\n")
    assert len(underline) <= len(line)


def test_user_text_in_messages_is_made_safe() -> None:
    diagnostic = Diagnostic("XG0000", "a \x1b[2J b", help=("c\rd",))
    assert (
        render([diagnostic], color=False) == "error[XG0000]: a <U+001B>[2J b\n  = help: c<U+000D>d"
    )


def test_colors_add_only_escapes() -> None:
    import re

    labels = (Label(span(MLP, "•"), "a"), Label(span(MLP, "D_ff"), "b", primary=False))
    colored = shown(*labels, color=True)
    assert "\x1b[1;31merror[XG0000]:\x1b[0m" in colored
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == shown(*labels)


@pytest.mark.parametrize(
    ("count", "end"), [(20, "error[XG0000]: 19"), (21, "and 1 more"), (50, "and 30 more")]
)
def test_at_most_twenty(count: int, end: str) -> None:
    text = render([Diagnostic("XG0000", str(number)) for number in range(count)], color=False)
    assert text.split("\n\n")[-1] == end
    assert text.count("error[XG0000]:") == min(count, 20)


def test_a_warning() -> None:
    assert (
        render([Diagnostic("XG0000", "m", severity="warning")], color=False) == "warning[XG0000]: m"
    )


def test_as_data() -> None:
    diagnostic = Diagnostic("XG0301", "m", (Label(span(MLP, "W_down"), "l"),), help=("h",))
    assert as_data(diagnostic) == {
        "code": "XG0301",
        "severity": "error",
        "file": "mlp.xg",
        "line": 6,
        "column": 11,
        "end_column": 17,
        "message": "m",
        "help": ["h"],
    }


def test_as_data_without_a_place() -> None:
    data = as_data(Diagnostic("XG0301", "m"))
    assert [data[key] for key in ("file", "line", "column", "end_column")] == [None] * 4


def test_the_primary_label_is_the_place() -> None:
    labels = (Label(span(MLP, "W_down"), primary=False), Label(span(MLP, "•")))
    diagnostic = Diagnostic("XG0301", "m", labels)
    assert (diagnostic.file, diagnostic.line, diagnostic.column) == ("mlp.xg", 14, 10)


def test_the_exception_prints_like_the_command_line() -> None:
    diagnostics = (Diagnostic("XG0301", "m"), Diagnostic("XG0302", "n"))
    error = DiagnosticError(diagnostics)
    assert error.diagnostics == diagnostics
    assert str(error) == render(diagnostics, color=False)


def test_long_pieces_of_source_are_shortened() -> None:
    assert quoted("x" * 40) == f"`{'x' * 40}`"
    assert quoted("x" * 41) == f"`{'x' * 40}…`"
