"""A help that says what to write is followed to the letter, and the program compiles."""

from __future__ import annotations

import re

import pytest
from frontend.refused import refused

from xg.diagnostics.diagnostic import Diagnostic

CELL = """
block C(x [B, D]) -> y [B, D] {
    state h [B, D] = zeros
    x -> ⊕<-h -> tanh : y
    next h = y
}
"""

MASKED = """F(x [B, S, D], m [B, S] in 2) -> y [B, S, S] {{
    x -> •<=T(x) : a [B, S, S]
    a -> SM{} -> S : y
}}"""

# The head of a program, its block, and what the help replaces.
CASES = {
    "axes of the whole operand": ("", "F(x [B, D]) -> y [] {\n    x -> mean : y\n}", "mean"),
    "axes that the label lacks": ("", "F(x [B, S, D]) -> y [S] {\n    x -> sum : y\n}", "sum"),
    "an axis without a label": (
        "", "F(x [B, D]) -> y [B] {\n    x -> mean -> R : y [B]\n}", "mean"
    ),
    "equal axes": ("", "F(x [S, S]) -> y [] {\n    x -> sum : y\n}", "sum"),
    "over": (CELL, "F(X [B, S, D]) -> Y [B, S, D] {\n    X -> C for S : Y\n}", "C for S"),
    "next": ("", CELL.strip()[6:].replace("next h", "h"), "h = y"),
    "next of a formula": (
        "", CELL.strip()[6:].replace("next h = y", "h = x + y"), "h = x + y"
    ),
    "next as a label": ("", CELL.strip()[6:].replace("next h = y", "y -> tanh : h"), ": h"),
    "a sum in a chain": (
        "",
        "F(x [B, D]) -> y [B, D] {\n    param W [D, D], b [D]\n    x -> •<=W + b : y\n}",
        "x -> •<=W + b",
    ),
    "a difference in a chain": (
        "", "F(x, z [B, D]) -> y [B, D] {\n    x -> tanh - z : y\n}", "x -> tanh - z"
    ),
    "a bias without arrow": (
        "",
        "F(x [B, D]) -> y [B, D] {\n    param W [D, D], b [D]\n    x -> •<=W -> +b : y\n}",
        "-> +b",
    ),
    "a missing comma": (
        "", "F(x [B, D] z [B, D]) -> y [B, D] {\n    x -> ⊕<-z : y\n}", "(x [B, D] z [B, D])"
    ),
    "parameters": (
        "",
        "F(x [B, D]) -> y [B, D] {\n    params W [D, D]\n    x -> •<=W : y\n}",
        "params W [D, D]",
    ),
    "a head without outputs": (
        "", "F(x [B, D]) {\n    x -> tanh : Y\n}", "block F(x [B, D]) {"
    ),
    "an output without a name": (
        "", "F(x [B, D]) -> [B, D] {\n    x -> tanh : Y\n}", "-> [B, D]"
    ),
    "minus": ("", "F(x, z [B, D]) -> y [B, D] {\n    x -> -<-z : y\n}", "x -> -<-z"),
    "minus without arrow": ("", "F(x, z [B, D]) -> y [B, D] {\n    x -> -z : y\n}", "x -> -z"),
    "over in a chain": (
        "", "F(x, z [B, D]) -> y [B, D] {\n    x -> tanh -> /<-z : y\n}", "-> /<-z"
    ),
    "a half": ("", "F(x [B, D]) -> y [B, D] {\n    x -> /2 : y\n}", "-> /2"),
    "a product as an operand": (
        "", "F(x [B, D]) -> y [B, D] {\n    param U [D, D]\n    x -> ⊕<-(x @ U) : y\n}", "(x @ U)"
    ),
    "a difference as an operand": (
        "", "F(x, z [B, D]) -> y [B, D] {\n    x -> ⊕<-(x - z) : y\n}", "(x - z)"
    ),
    "a negative operand": ("", "F(x, z [B, D]) -> y [B, D] {\n    x -> ⊕<- -z : y\n}", "-z"),
    "a negative tensor": ("", "F(x [B, D]) -> y [B, D] {\n    -x -> tanh : y\n}", "-x"),
    "a function": ("", "F(x [B, D]) -> y [B, D] {\n    x -> abs : y\n}", "-> abs"),
    "a maximum": ("", "F(x, z [B, D]) -> y [B, D] {\n    x -> maximum<-z : y\n}", "-> maximum<-z"),
    "the largest": ("", "F(x [B, S]) -> y [B] {\n    x -> max[S] : y\n}", "-> max[S]"),
    "a repeated mask": ("", MASKED.format("<-BC(m)"), "BC"),
    "a mask of another shape": ("", MASKED.format("<-m"), "<-m"),
    "a mask of floats": (
        "", MASKED.format("<-m").replace("m [B, S] in 2", "m [B, S, S]"), "m [B, S, S]"
    ),
    "equal axes in another order": ("", "F(x [S, S, D]) -> y [S, D, S] {\n    x -> T : y\n}", "T"),
    "times a number": ("", "F(x [B, D]) -> y [B, D] {\n    x -> tanh -> *0.5 : y\n}", "-> *0.5"),
    "over a root": (
        "", "F(x [B, D]) -> y [B, D] {\n    x -> tanh -> /sqrt(D) : y\n}", "-> /sqrt(D)"
    ),
    "over a dim": (
        "", "F(x [B, D]) -> y [B, D] {\n    x -> tanh -> / D : y\n}", "-> / D"
    ),
    "a list of values": (
        "", "F(x [B, D]) -> y [B, 2*D] {\n    [x, x] -> C : y\n}", "[x, x] -> C : y"
    ),
    "positions of Python": (
        "", "F(x [B, S, D]) -> y [B, S - 1, D] {\n    x -> [:, 1:] : y\n}", "-> [:, 1:]"
    ),
    "a position of Python": (
        "", "F(x [B, S, D]) -> y [B, D] {\n    x -> tanh -> [:, 0] : y\n}", "-> [:, 0]"
    ),
    "a position of a name": (
        "", "F(x [B, S, D]) -> y [B, D] {\n    x[:, 0] -> tanh : y\n}", "x[:, 0]"
    ),
    "positions from the end": (
        "", "F(x [B, S, D]) -> y [B, S - 1, D] {\n    x -> [:, :-1] : y\n}", "-> [:, :-1]"
    ),
    "a size behind a colon": (
        "", "F(x [B]) -> y [B, D] {\n    x -> BC[b -> b, d:D] : y\n}", "d:D"
    ),
    "a row with a letter": (
        "block G(x [B, D]) -> y [B, D] {\n    x -> tanh : y\n}\n",
        "F(x [B, D]) -> y [B, D] {\n    x -> 2x G : y\n}",
        "2x G",
    ),
    "a parameter that is fixed": (
        "",
        "F(x [B, D]) -> y [B, D] {\n    param c [D] fixed\n    x -> ⊙<-BC(c) : y\n}",
        "c [D] fixed",
    ),
    "over a value": (
        CELL, "F(x [B, S, D], h [B]) -> y [B, S, D] {\n    x -> C over h : y\n}", "over h"
    ),
    "a scale that is learned": (
        "",
        "F(x [B, D]) -> y [B, D] {\n    param c []\n    x -> tanh -> scale(c) : y\n}",
        "scale(c)",
    ),
    "turned round": (
        "",
        "F(x [B, S, D]) -> y [B, S, D] {\n    param W [D, D]\n    W -> •<=x : y\n}",
        "W -> •<=x",
    ),
    "ids of floats": (
        "", "F(ids [B]) -> y [B, D] {\n    param E [S, D]\n    ids -> Emb(E) : y\n}", "ids [B]"
    ),
    "a slice with a colon": (
        "", "F(x [B, S, D]) -> y [B, 1, D] {\n    x -> slice[S](0:1) : y\n}", "slice[S](0:1)"
    ),
    "a slice without an end": (
        "", "F(x [B, S, D]) -> y [B, S - 1, D] {\n    x -> slice[S](1:) : y\n}", "slice[S](1:)"
    ),
    "a slice in brackets": (
        "", "F(x [B, S, D]) -> y [B, 1, D] {\n    x -> slice[S, 0:1] : y\n}", "slice[S, 0:1]"
    ),
    "a position without a colon": (
        "", "F(x [B, S, D]) -> y [B, D] {\n    x -> tanh -> [0] : y\n}", "-> [0]"
    ),
    "positions of an operand": (
        "",
        "F(x [B, D], z [B, S]) -> y [B, D] {\n    x -> ⊕<-BC(x) -> ⊙<-z[:, 1:] : y\n}"
        .replace("[B, D]", "[B, S - 1]"),
        "z[:, 1:]",
    ),
    "a module in front": (
        "", "F(x [B, D]) -> y [B, D] {\n    x -> torch.tanh : y\n}", "torch.tanh"
    ),
    "a method": (
        "", "F(x [B, D]) -> y [B, D] {\n    x.tanh() : y\n}", "x.tanh()"
    ),
    "a sum of calls": (
        "", "F(x, z [B, D]) -> y [B, D] {\n    ReLU(x) + ReLU(z) : y\n}", "ReLU(x) + ReLU(z) : y"
    ),
    "values in parentheses": (
        "", "F(x, z [B, D]) -> y [B, 2*D] {\n    (x, z) -> C : y\n}", "(x, z) -> C : y"
    ),
    "a product beside a sum": (
        "",
        "F(x, z [B, S]) -> y [B, S] {\n    param W [S, S]\n    x -> ⊕<-z•W : y\n}",
        "x -> ⊕<-z•W",
    ),
    "a node in front of its operand": (
        "",
        "F(x [B, D], z [B, S, D]) -> y [B, D] {\n    x -> ⊕<-pick[S](0)(z) : y\n}",
        "pick[S](0)(z)",
    ),
    "a row with a name and a letter": (
        "block G(x [B, D]) -> y [B, D] {\n    x -> tanh : y\n}\n",
        "F(x [B, D]) -> y [B, D] {\n    x -> S x G : y\n}",
        "S x G",
    ),
    "a loop of Python": (
        CELL, "F(X [B, S, D]) -> Y [B, S, D] {\n    X -> C for i in range(S) : Y\n}",
        "C for i in range(S)",
    ),
    "a loop reversed": (
        CELL, "F(X [B, S, D]) -> Y [B, S, D] {\n    X -> C over reversed(S) : Y\n}",
        "over reversed(S)",
    ),
    "a loop with a sign": (
        CELL, "F(X [B, S, D]) -> Y [B, S, D] {\n    X -> C over -S : Y\n}", "over -S"
    ),
    "a formula among peers": (
        "", "F(x, z [B, D]) -> y [B, D] {\n    z + 0.5*x : y\n}", "z + 0.5*x : y"
    ),
    "noise of torch": (
        "", "F(x [B, D]) -> y [B, D] {\n    x + randn(B, D) : y\n}", "x + randn(B, D) : y"
    ),
    "ones of torch": (
        "", "F(x [B, D]) -> y [B, D] {\n    p = ones[B, D]\n    x -> ⊕<-p : y\n}", "p = ones[B, D]"
    ),
    "a number added": ("", "F(x [B, D]) -> y [B, D] {\n    x -> + 1 : y\n}", "-> + 1"),
    "a number in front": (
        "", "F(x [B, D]) -> y [B, D] {\n    x -> tanh -> 1 - x : y\n}", "-> 1 - x"
    ),
    "a number alone": ("", "F(x [B, D]) -> y [B, D] {\n    x -> 2 : y\n}", "-> 2"),
    "a call behind a sign": (
        "", "F(x [B, D], b [D]) -> y [B, D] {\n    x -> + BC(b) : y\n}", "-> + BC(b)"
    ),
    "a sum that assigns": (
        "", "F(out, d [B, D]) -> out_2 [B, D] {\n    out += relu(d)\n}", "out += relu(d)"
    ),
    "a mean of a formula": (
        "", "F(x, d [B, D]) -> loss [] {\n    loss = -mean(x*log(d))\n}", "loss = -mean(x*log(d))"
    ),
    "a size of a new axis": (
        "", "F(x [B]) -> y [B, 2*D] {\n    x -> BC[b -> b, 2*D] : y\n}", "BC[b -> b, 2*D]"
    ),
    "a size of noise": ("", "F() -> y [B, D/2] {\n    fill[B, D/2](1) : y\n}", "fill[B, D/2]"),
}  # fmt: skip
WRITTEN = re.compile(
    r"(?:write|name them:|then|line,|which:|axis:|index:|goes first,) "
    r"`?([^`\n]+?)`?(?=$|,? and\b|,? or\b)",
    re.M,
)


def wrong_in(text: str) -> list[Diagnostic]:
    """The errors and warnings, but for dims that a case has no use for."""
    return [each for each in refused(text) if each.code != "XG0225"]


@pytest.mark.parametrize("case", CASES)
def test_the_program_that_a_help_leads_to_compiles(case: str) -> None:
    head, block, wrong = CASES[case]
    dims = "dim B = 2, S = 3, D = 4\n"
    (found, *_) = wrong_in(f"{dims}{head}\nblock {block}\n")
    help = "\n".join(found.help)
    op = re.search(r"op \w+\([^`]*?\) = [^`]*?(?=`|, and then)", help)
    lines = WRITTEN.findall(help)
    assert lines, help
    block = f"block {block}"
    assert block.count(wrong) == 1
    mended = block.replace(wrong, "\n    ".join(lines).replace("…", "m"))
    assert wrong_in(f"{dims}{op[0] if op else ''}{head}\n{mended}\n") == [], help


SIGNATURES = {  # an operator of the file, and what its help replaces
    "two axes of the same name": ("op P(x [.., D, D]) = x * 2", "[.., D, D]"),
    "comparisons in a row": ("op P(x) = select(1 > x > 0, x, 0)", "1 > x > 0"),
    "a product of parentheses": ("op P(x) = sigmoid(x) (1 - x)", "sigmoid(x) (1 - x)"),
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_an_operator_is_written_as_a_help_says(case: str) -> None:
    defined, wrong = SIGNATURES[case]
    block = "block F(x [D, D]) -> y [D, D] {\n    x -> P : y\n}\n"
    (found,) = wrong_in(f"dim D = 2\n{defined}\n{block}")
    (line,) = WRITTEN.findall("\n".join(found.help))
    assert wrong_in(f"dim D = 2\n{defined.replace(wrong, line)}\n{block}") == [], line


def test_the_dim_that_a_formula_in_brackets_becomes_is_a_new_one() -> None:
    """The name is free, and what else the brackets list stays."""
    text = "dim B, S, D, n = 3\nblock F(x [B, S, D/2]) -> y [B] {\n    x -> sum[S, D/2] : y\n}\n"
    found, *_ = refused(text)
    (help,) = found.help
    line, node = re.findall(r"(dim [^`]*)`|block and (.*?), or", help)
    mended = text.replace("sum[S, D/2]", node[1]).replace("    x", f"    {line[0]}\n    x")
    assert line[0] == "dim n_2 = D/2"
    assert wrong_in(mended) == []


def test_positions_of_an_axis_that_no_operand_has_are_an_operand() -> None:
    block = "block F(x [B, D]) -> y [B, D, S] {{\n    {} : y\n}}\n"
    text = f"dim B, D, S = 3\nop at(x [B, D]) = x + range[S]\n{block.format('x -> at')}"
    (found,) = refused(text)
    (help,) = found.help
    (own,) = re.findall(r"op at\(…(; S)\)", help)
    mended = f"dim B, D, S = 3\nop at(x [B, D]{own}) = x + range[S]\n"
    assert wrong_in(mended + block.format("x -> at(S)")) == []


DECLARED = {  # the head of a block, its chain, and what a help may say more than a declaration
    "a norm": ("x [B, S, D]", "y [B, S, D]", "x -> LN(γ, beta) : y"),
    "a norm of another axis": ("x [B, S, D]", "y [B, S, D]", "x -> LN[S](g) : y"),
    "a table": ("ids [B, S] in S", "y [B, S, D]", "ids -> Emb(E) : y"),
    "a kernel": ("x [B, S, D]", "y [B, S, 5]", "x -> conv[S](K, b, pad=1) : y"),
    "a matrix": ("x [B, S]", "y [B, D]", "x -> •<=W : y"),
    "two matrices": ("x [B, S]", "y [B, 3*D]", "x -> •<=W -> GELU -> •<=U : y"),
    "a transposed matrix": ("x [B, S]", "y [B, D]", "x -> •<=T(W) : y"),
    "a bias": ("x [B, S, D]", "y [B, S, D]", "x -> tanh -> ⊕<-b : y"),
    "a bias of a product": ("x [B, S]", "y [B, D]", "x -> •<=W -> ⊕<-BC(b) : y"),
    "a scale": ("x [B, D]", "y [B, D]", "x -> ⊙<-BC(g) : y"),
    "a norm behind a chain": ("x [B, S]", "y [B, S]", "x -> ReLU -> scale(2) -> LN(γ) : y"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_a_parameter_is_declared_as_a_help_says(case: str) -> None:
    """Each help is followed until none is left; it never leads to another kind of error."""
    given, made, chain = DECLARED[case]
    lines: list[str] = []
    head = f"dim B = 2, S = 3, D = 4\nblock F({given}) -> {made} {{\n    "
    while found := wrong_in(head + "\n    ".join([*lines, chain]) + "\n}\n"):
        assert len(lines) < 3, lines
        for each in found:
            assert each.message.startswith("no value is called"), each.message
            (help,) = each.help
            lines += re.findall(r"param \w+ \[[^\]]*\](?: = \w+)?", help)
            if "write " in help:
                chain = chain.replace("⊕<-b", "⊕<-BC(b)")
    assert lines


def test_undeclared_sizes_are_declared_as_the_help_says() -> None:
    block = "block F(x [B, S, D]) -> y [B, D] {\n    param W [S, D_ff]\n    x -> mean[S] : y\n}\n"
    found, *_ = wrong_in(block)
    (help,) = found.help
    assert help.endswith(": dim B, S, D, D_ff")
    (left,) = wrong_in(f"{help.partition(': ')[2]}\n{block}")
    assert left.message == "no chain uses the parameter W"
