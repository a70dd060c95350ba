"""Chains: nodes, what is attached to them, and the labels of their edges."""

from __future__ import annotations

import pytest
from syntax.parsed import HEAD, chain, mistakes

from xg.syntax import ast


def test_a_node_with_everything() -> None:
    tree = chain("X -> N_L × Layer[B, S](p, eps=1)<-M<=W if norm = pre | post as layers : Y [B]")
    (node,) = tree.steps
    assert node.span.text == ("N_L × Layer[B, S](p, eps=1)<-M<=W if norm = pre | post as layers")
    assert isinstance(node.repeat, ast.Path)
    assert (node.repeat.name, node.operator.name) == ("N_L", "Layer")
    assert node.axes is not None
    assert node.axes.target is None
    assert [argument.span.text for argument in node.arguments] == ["p", "eps=1"]
    assert [(a.arrow, a.operand.span.text) for a in node.attachments] == [("<-", "M"), ("<=", "W")]
    assert node.guard is not None
    assert [word.name for word in node.guard.words] == ["pre", "post"]
    assert node.instance is not None
    assert node.instance.name == "layers"
    assert node.label is not None
    assert node.label.span.text == ": Y [B]"


@pytest.mark.parametrize(
    ("sign", "name"),
    [("•", "•"), ("@", "•"), ("⊕", "⊕"), ("+", "⊕"), ("⊙", "⊙"), ("*", "⊙"), ("γ", "gamma")],
)
def test_operators_have_one_spelling(sign: str, name: str) -> None:
    (node,) = chain(f"X -> {sign}<-W : Y").steps
    assert node.operator.name == name
    assert node.operator.span.text == sign


@pytest.mark.parametrize("times", ["×", "*"])
def test_repeat_by_a_number(times: str) -> None:
    (node,) = chain(f"X -> 6 {times} F : Y").steps
    assert isinstance(node.repeat, ast.Number)
    assert node.repeat.value == 6


def test_labels_in_the_middle_and_at_the_end() -> None:
    tree = chain("X -> A : Q [B] -> B : [S] -> C -> D : g [N], h [K] in 2")
    labels = [step.label for step in tree.steps]
    names = [[port.name.name for port in label.ports] if label else None for label in labels]
    assert names == [["Q"], [], None, ["g", "h"]]
    assert labels[1] is not None
    assert labels[1].shape is not None
    assert labels[3] is not None
    assert [port.range is not None for port in labels[3].ports] == [False, True]


def test_names_without_a_shape_take_the_next_one() -> None:
    (node,) = chain("X -> Route : G, M [B, S] in 2").steps
    assert node.label is not None
    first, second = node.label.ports
    assert first.shape == second.shape
    assert first.range == second.range
    assert first.range is not None


def test_a_chain_in_parentheses_needs_no_name() -> None:
    (node,) = chain("X -> SwiGLU<-(H -> •<=W_up) : U").steps
    inner = node.attachments[0].operand
    assert isinstance(inner, ast.Chain)
    assert inner.span.text == "H -> •<=W_up"
    assert [step.operator.name for step in inner.steps] == ["•"]


def test_several_sources() -> None:
    tree = chain("O_1, T(O_2), (O_3 -> S) -> C : O")
    assert [type(source) for source in tree.sources] == [ast.Path, ast.Call, ast.Chain]


def test_a_source_alone_can_be_named() -> None:
    tree = chain("T(E) : E_T [D, V]")
    assert tree.steps == ()
    assert tree.label is not None


def test_a_call_that_begins_a_chain_can_have_a_name() -> None:
    tree = chain("Queries(N=N) as more, (Queries(N=N) as most -> S) -> C : O")
    first, second = tree.sources
    assert isinstance(first, ast.NodeUse)
    assert (first.operator.name, first.instance and first.instance.name) == ("Queries", "more")
    assert [each.name and each.name.name for each in first.arguments] == ["N"]
    assert isinstance(second, ast.Chain)
    assert isinstance(second.sources[0], ast.NodeUse)


def test_the_name_behind_an_operand_is_that_of_its_node() -> None:
    (node,) = chain("X -> F<-Queries(N=N) as more : O").steps
    assert node.instance
    assert isinstance(node.attachments[0].operand, ast.Call)


def test_an_axis_map() -> None:
    (node,) = chain("X -> R[b, (h, p=P), 1, .. -> b, h, (p, ..)] : Y").steps
    assert node.axes is not None
    kinds = [ast.Axis, ast.AxisGroup, ast.UnitAxis, ast.Rest]
    assert [type(axis) for axis in node.axes.source] == kinds
    assert node.axes.target is not None
    group = node.axes.source[1]
    assert isinstance(group, ast.AxisGroup)
    assert [axis.span.text for axis in group.axes] == ["h", "p=P"]


def test_a_chain_goes_on_in_the_next_line() -> None:
    over_lines = chain("X ->", "  LN(γ,", "  β)", "", "  -> S  # why", "  : Y")
    assert over_lines == chain("X -> LN(γ, β) -> S : Y")


@pytest.mark.parametrize(
    ("line", "code", "column"),
    [
        ("X -> LN", "XG0130", 6),
        ("X -> LN : [B]", "XG0130", 9),
        ("X", "XG0130", 1),
        ("X -> F : a, b -> G : c", "XG0131", 8),
        ("X -> A<-(X : a, b -> F) : c", "XG0131", 12),
        ("X -> R[b, 2 -> b] : Y", "XG0136", 11),
        ("H = X -> LN", "XG0119", 3),
        ("X ==> LN : Y", "XG0104", 3),
        ("X --> LN : Y", "XG0104", 3),
        ("X -> R[b s -> b, s] : Y", "XG0115", 8),
        ("X -> ⊕<-3 : Y", "XG0129", 9),
        ("X -> LN(γ : Y", "XG0111", 8),
        ("X -> LN(γ] : Y", "XG0112", 10),
        ("X -> LN) : Y", "XG0113", 8),
        ("X -> LN as if : Y", "XG0117", 12),
        ("X -> LN : Y;", "XG0125", 12),
    ],
)
def test_refused(line: str, code: str, column: int) -> None:
    assert mistakes(HEAD + line + "\n}\n") == [(code, 2, column)]
