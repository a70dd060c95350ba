"""Formulas as Python writes them become chains that compile."""

from __future__ import annotations

import pytest

import xg
from xg import ops
from xg.syntax.formulas import OPERATORS, as_chain, as_operator

HEAD = """\
dim B, D = 4
{op}
block F(x [B, D], z [B, D]) -> y [B, D] {{
    param W [D, D]

    {line}
}}
"""
USED = "x -> ⊕<-z -> •<=W"  # so that nothing is left over


@pytest.mark.parametrize(
    "formula",
    [
        "relu(x @ W)",
        "F.silu(torch.matmul(x, W.T) + z)",
        "softmax(x @ W + z, dim=-1)",
        "dropout(x * (z @ W), 0.1)",
        "(x ⊕ z) • W ⊙ x",
        "x @ (x.T @ z)",
    ],
)
def test_a_formula_is_answered_by_a_chain_that_compiles(formula: str) -> None:
    wrong = HEAD.format(op="", line=f"y = {formula}")
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(source=wrong)
    (told,) = caught.value.diagnostics
    (help,) = told.help
    chain = help.removeprefix("write `").removesuffix("`")
    used = f"{USED} : used\n    {chain.removesuffix(' : y')} -> ⊕<-used : y"
    xg.compile(source=HEAD.format(op="", line=used))


@pytest.mark.parametrize(
    ("formula", "chain"),
    [
        ("x @ W + b", "x -> •<=W -> ⊕<-BC(b)"),
        ("b + x @ W", "x -> •<=W -> ⊕<-BC(b)"),
        ("relu(x * b + z)", "x -> ⊙<-BC(b) -> ⊕<-z -> ReLU"),
        ("x + z", "x -> ⊕<-z"),
        ("F.silu(x @ W * b) + b", "x -> •<=W -> ⊙<-BC(b) -> SiLU -> ⊕<-BC(b)"),
    ],
)
def test_an_operand_of_fewer_axes_is_repeated(formula: str, chain: str) -> None:
    head = HEAD.replace("param W [D, D]", "param W [D, D], b [D]")
    wrong = head.format(op="", line=f"y = {formula}")
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(source=wrong)
    assert caught.value.diagnostics[0].help == (f"write `{chain} : y`",)
    used = f"{USED} -> ⊕<-BC(b) : used\n    {chain} -> ⊕<-used : y"
    xg.compile(source=head.format(op="", line=used))


@pytest.mark.parametrize("formula", ["x - x/2", "2*x**2 + z", "max(x, 0) * exp(-z)"])
def test_a_formula_of_numbers_is_answered_by_an_operator_that_compiles(formula: str) -> None:
    operator, chain = as_operator(formula) or ("", "")
    used = f"{USED} : used\n    {chain} -> ⊕<-used : y"
    xg.compile(source=HEAD.format(op=operator, line=used))


def test_an_attached_formula_of_numbers_is_answered_by_an_operator_that_compiles() -> None:
    wrong = HEAD.format(op="", line="x -> ⊕<-(z + x*2) : y")
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(source=wrong)
    (told,) = caught.value.diagnostics
    assert told.help == ("define it: `op f(z, x) = z + x * 2`, and write `(z -> f<-x)`",)
    right = HEAD.format(op="op f(z, x) = z + x * 2", line=f"{USED} -> ⊕<-(z -> f<-x) : y")
    xg.compile(source=right)


@pytest.mark.parametrize(
    "text",
    [
        "dim N = 4 if D > 3 else 5\n",
        "op f(x) = x if x in 3 else 0\n",
        "block G(x [B]; k = 1 if B > 0 else 2) -> y [B] {\n    x -> scale(k) : y\n}\n",
        HEAD.format(op="", line="x -> scale(2 if D > 3 else 3) : y"),
    ],
)
def test_a_choice_that_no_operator_can_make_is_not_answered_by_select(text: str) -> None:
    with pytest.raises(xg.DiagnosticError) as caught:
        xg.compile(source=text)
    assert not any("select" in help for told in caught.value.diagnostics for help in told.help)


@pytest.mark.parametrize(
    "formula", ["W[0]", "relu(x", "f(x, axis=1)", "x if z else W", "", "3", "x" + " + x" * 5_000]
)
def test_others_are_no_chains(formula: str) -> None:
    assert as_chain(formula) is None


def test_operators_are_there() -> None:
    assert set(OPERATORS.values()) <= {op.glyph for op in ops.table().values()}
