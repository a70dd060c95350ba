"""Expressions: flat sums and products, one nesting level per bracket."""

from __future__ import annotations

import pytest
from syntax.parsed import expression, mistakes, module

from xg.diagnostics.limits import Nesting
from xg.syntax import ast
from xg.syntax.ast import walk


def said(tree: ast.Expr) -> str:
    """An expression with a parenthesis for each of its trees."""
    match tree:
        case ast.Number():
            return repr(tree.value)
        case ast.Path():
            return tree.name
        case ast.Wildcard():
            return "_"
        case ast.Call():
            values = [said(argument.value) for argument in tree.arguments]
            return f"{tree.operator.name}({', '.join(values)})"
        case ast.Array():
            return f"[{', '.join(map(said, tree.items))}]"
        case ast.Arithmetic():
            rest = [f" {step.sign} {said(step.operand)}" for step in tree.rest]
            return f"({said(tree.first)}{''.join(rest)})"
        case ast.Negation():
            return f"(-{said(tree.operand)})"
        case ast.Power():
            return f"({said(tree.base)}^{said(tree.exponent)})"
        case ast.Comparison():
            return f"({said(tree.left)} {tree.sign} {said(tree.right)})"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1", "1"),
        ("1.50", "1.5"),
        ("2e3", "2000.0"),
        ("x", "x"),
        ("γ_1", "gamma_1"),
        ("layers.3.attn.W_Q", "layers.3.attn.W_Q"),
        ("a + b - c", "(a + b - c)"),
        ("a * b / c", "(a * b / c)"),
        ("a + b*c", "(a + (b * c))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("a - (b - c)", "(a - (b - c))"),
        ("-a + b", "((-a) + b)"),
        ("a * -b", "(a * (-b))"),
        ("-a^2", "(-(a^2))"),
        ("a^-2", "(a^(-2))"),
        ("(a^2)^3", "((a^2)^3)"),
        ("a*b^2", "(a * (b^2))"),
        ("x > 0", "(x > 0)"),
        ("x + 1 >= y", "((x + 1) >= y)"),
        ("f(a, b + 1)", "f(a, (b + 1))"),
        ("f()", "f()"),
        ("[[1, 0], []]", "[[1, 0], []]"),
    ],
)
def test_precedence(text: str, tree: str) -> None:
    assert said(expression(text)) == tree


def test_a_number_keeps_its_digits() -> None:
    whole, point = expression("10"), expression("0.10")
    assert isinstance(whole, ast.Number)
    assert isinstance(point, ast.Number)
    assert (whole.value, type(whole.value)) == (10, int)
    assert (point.value, point.digits) == (0.1, "0.10")


def test_named_arguments_and_axes() -> None:
    call = expression("mean[D](x, eps=1)")
    assert isinstance(call, ast.Call)
    assert call.axes is not None
    assert call.axes.span.text == "[D]"
    assert [a.name and a.name.name for a in call.arguments] == [None, "eps"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a^b^c", "XG0122"),
        ("--a", "XG0123"),
        ("a <= b", "XG0124"),
        ("a <- b", "XG0124"),
        ("a < b", "XG0104"),
        ("4D", "XG0116"),
        ("f(a=1, b)", "XG0134"),
        ("1e999", "XG0137"),
        ("a.2.5", "XG0138"),
        ("_", "XG0133"),
        ("a +", "XG0110"),
        ("a b", "XG0116"),
    ],
)
def test_refused(text: str, code: str) -> None:
    assert [found for found, _, _ in mistakes(f"op f(x) = {text}")] == [code]


def test_a_long_sum_is_flat() -> None:
    tree = expression(" + ".join(["x"] * 20_000))
    assert isinstance(tree, ast.Arithmetic)
    assert len(tree.rest) == 19_999


@pytest.mark.parametrize("opened", ["(", "[", "f("])
def test_nesting_at_the_limit_and_beyond(opened: str) -> None:
    closed = {"(": ")", "[": "]", "f(": ")"}[opened]
    deepest = Nesting.maximum
    assert mistakes(f"op f(x) = {opened * deepest}1{closed * deepest}") == []
    (found,) = mistakes(f"op f(x) = {opened * (deepest + 1)}1{closed * (deepest + 1)}")
    assert found[0] == "XG0002"


def test_the_deepest_tree_can_be_walked_compared_and_printed() -> None:
    deepest = Nesting.maximum
    text = "op f(x) = " + "-f(1 + 2*" * deepest + "1" + ")" * deepest
    assert module(text) == module(text)
    assert repr(module(text)) == repr(module(text))
    assert sum(isinstance(tree, ast.Call) for tree in walk(module(text))) == deepest
