"""Comparisons with `<`: the help has the author's own symbols, and what it says compiles."""

from __future__ import annotations

import pytest

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project

# An expression of an operator, the comparison in it, and what the help writes instead.
TURNED = {
    "names": ("select(q < c, 0, q)", "q < c", "c > q"),
    "at most": ("select(q <= c, 0, q)", "q <= c", "c >= q"),
    "one sign": ("select(q ≤ c, 0, q)", "q ≤ c", "c >= q"),
    "an arrow": ("select(q <-c, 0, q)", "q <-c", "-c > q"),
    "formulas": (
        "select(abs(q - 1) < 2*c + 1, 0, q)",
        "abs(q - 1) < 2*c + 1",
        "2*c + 1 > abs(q - 1)",
    ),
    "two": ("select(0 < q <= c, 0, q)", "0 < q <= c", "and(q > 0, c >= q)"),
    "both ways": ("select(c > q < 1, 0, q)", "c > q < 1", "and(c > q, 1 > q)"),
    "inside": ("select(and(q >= 0, max(q, c) < 2), 0, q)", "max(q, c) < 2", "2 > max(q, c)"),
    "a part": ("m * q\n    where m = select(q < c, 0, 1)", "q < c", "c > q"),
}
OPERATOR = """\
dim B, D = 4
op Hat(q; c) = {}
block F(X [B, D]) -> Y [B, D] {{
    X -> Hat(2) : Y
}}
"""


def told(text: str) -> list[str]:
    """The helps of a program's errors."""
    try:
        found = check_choices(parse_project(text.encode()))
    except DiagnosticError as error:
        found = error.diagnostics
    return [line for each in found if each.severity == "error" for line in each.help]


@pytest.mark.parametrize("name", TURNED)
def test_a_comparison_is_turned_round_in_its_own_symbols(name: str) -> None:
    expression, compared, meant = TURNED[name]
    text = OPERATOR.format(expression)
    assert told(text)[0] == f"turn the comparison round: `{meant}`"
    assert told(text.replace(compared, meant)) == []


def test_comparisons_that_a_word_joins_are_turned_round_together() -> None:
    for joined, meant in {
        "q < c and q > 0": "and(c > q, q > 0)",
        "q < c or q > 0": "or(c > q, q > 0)",
    }.items():
        helps = told(OPERATOR.format(f"select({joined}, 0, q)"))
        assert helps == [f"turn the comparison round: `{meant}`", f"write `{meant}`"]


# A line of a block, the operator that the help defines, and its use.
COMPARED = {
    "X < M : Y": ("op f(x, y) = y > x", "X -> f<-M"),
    "X ≤ M : Y": ("op f(x, y) = y >= x", "X -> f<-M"),
    "X -> tanh < M : Y": ("op f(x, y) = y > x", "tanh -> f<-M"),
    "X < 0.5 : Y": ("op f(x) = 0.5 > x", "X -> f"),
}


@pytest.mark.parametrize("line", COMPARED)
def test_a_comparison_in_a_chain_is_an_operator(line: str) -> None:
    define, use = COMPARED[line]
    head, block = "dim B, D = 4\n", "block F(X, M [B, D]) -> Y [B, D] in 2 {{\n    {}\n}}\n"
    (help,) = told(head + block.format(line))
    assert help == f"an operator of yours compares: `{define}`, and `{use}`"
    before = line.partition(" -> ")[0] + " -> " if "->" in line else ""
    written = f"{before}{use} : Y"
    if "M" not in line:
        block = block.replace("X, M [B, D]", "X [B, D]")
    assert told(f"{head}{define}\n{block.format(written)}") == []


def test_what_is_half_typed_has_no_symbols() -> None:
    assert told(OPERATOR.format("q <"))[0] == "turn the comparison round: `b > a`, `b >= a`"
