"""A text that is no printed IR is refused with its line, what was expected and what was found."""

import re

import pytest
from ir_reader import read_program
from ir_reader.errors import UnreadableIR

from xg.diagnostics.diagnostic import Span
from xg.ir.dim import Scalar, as_scalar, symbol
from xg.ir.graph import Apply, IRProgram
from xg.passes.ir_text import spell_program

TEXT = """\
program Block
  sizes {D_h = D/N_H} defaults D = 64

graph Block (X [B, S, D]) -> Y [B, S, D]
  param g [D] = ones
  U [B, S, D] = scale(X) {c=1/sqrt(D_h)}
  Y [B, S, D], keep [B, S, D] = DO(U) {p=0.1, scaling="scaled"} at DO_1
  return Y

backward Block (dY [B, S, D] of Y) -> dX [B, S, D]
  saved keep
  dU [B, S, D] of U = dDO(dY, keep) {p=0.1} from Y
  dX [B, S, D] of X = scale(dU) {c=1/sqrt(D_h)} from U
  return dX
  d X = dX
  totals Y = dY, U = dU
"""


@pytest.fixture(scope="module")
def program() -> IRProgram:
    return read_program(TEXT, "block.ir")


def test_a_text_is_read(program: IRProgram) -> None:
    assert spell_program(program) == TEXT
    drop = program.main.steps[1]
    assert isinstance(drop, Apply)
    assert (drop.place, drop.outputs[1].role, drop.attrs["p"]) == ("DO_1", "cache", as_scalar(0.1))
    assert program.main.types[drop.inputs[0]].shape == tuple(map(symbol, "BSD"))


def test_spans_point_into_the_text(program: IRProgram) -> None:
    def said(span: Span) -> tuple[str, int, str]:
        return span.source.name, span.line, span.text

    scale = program.main.steps[0]
    assert said(scale.span) == ("block.ir", 6, "U [B, S, D] = scale(X) {c=1/sqrt(D_h)}")
    assert said(program.main.inputs[0].span) == ("block.ir", 4, "X")


def test_attributes_of_every_kind_are_told_apart() -> None:
    attributes = {
        "2": 2,
        "-2": -2,
        "2.0": as_scalar(2.0),
        "-1e999": as_scalar(-float("inf")),
        "true": True,
        "none": None,
        '"none"': "none",
        "|S|": symbol("S"),
        "S": Scalar("size", (), symbol("S")),
        "size(B*S)": Scalar("size", (), symbol("B") * symbol("S")),
        "[B]": (symbol("B"),),
        "(-1, 2)": (-1, 2),
        "(-1,)": (-1,),
        "()": (),
        '((-1, "N_T"),)': ((-1, "N_T"),),
        "([B], [S])": ((symbol("B"),), (symbol("S"),)),
    }
    body = '\n    op "odd" nonlinear (x) -> y\n      return x'
    for text, value in attributes.items():
        line = f"scale(X) {{c={text}}}"
        odd = TEXT.partition("\nbackward")[0].replace("scale(X) {c=1/sqrt(D_h)}", line + body)
        read = read_program(odd)
        step = read.main.steps[0]
        assert isinstance(step, Apply)
        assert step.attrs["c"] == value, text
        assert type(step.attrs["c"]) is type(value), text
        assert spell_program(read) == odd


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("program Block", "graph Block", "line 1: expected 'program' or the end"),
        (
            "= scale(X)",
            "= scale X",
            "line 6: expected 'backward' or 'call' or an operator, not 'scale'",
        ),
        ("scale(X)", "scale(Z)", "line 6: no value before is called Z"),
        ("scale(X)", "scole(X)", "line 6: scole is no operator of the language: expected op"),
        ("scale(X)", "scale(X, X)", "line 6: expected 1 operands of scale, not 2"),
        ("U [B, S, D] =", "X [B, S, D] =", "line 6: X is made a second time"),
        ("{c=1/sqrt(D_h)}", "{c=1/root(D_h)}", "line 6: expected sqrt, exp, log, size, not root"),
        ("  return Y\n", "  return Y Z\n", "line 8: expected ',' or the end of the line, not 'Z'"),
        ("from Y", "from keep", "line 12: no forward step makes keep first"),
        ("(dY [B, S, D] of Y)", "(dY [B, S, D])", "line 10: expected of and the name of an output"),
        ("backward Block", "backward Blick", "line 10: there is no graph Blick before its"),
        ("program Block", "program Blick", "line 1: the entry Blick is no graph of the text"),
        ("D_h = D/N_H", "D_h = D/(N_H + 1)", "line 1: cannot divide by N_H + 1"),
        (" = ones", "", "line 5: expected '=', not the end of"),
        ("defaults D = 64", "defaults D = x", "line 2: expected a number, not 'x'"),
        ("  sizes", '  define "op RMS = x"\n  sizes', "line 2: expected the definition of an"),
    ],
)
def test_what_cannot_be_read_is_said(old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(UnreadableIR) as caught:
        read_program(TEXT.replace(old, new, 1))
    assert str(caught.value).startswith(said)


def test_names_that_begin_a_line_are_no_lines() -> None:
    odd = re.sub(r"\bU\b", "param~1", TEXT)
    read = read_program(odd)
    assert read.main.steps[0].outputs[0].name == "param"
    assert spell_program(read) == odd
