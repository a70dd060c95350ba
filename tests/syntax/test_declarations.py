"""The declarations of a file and of a block are parsed as they are written."""

from __future__ import annotations

import pytest
from syntax.parsed import HEAD, block, mistakes, module

from xg.syntax import ast
from xg.syntax.ast import only


def test_an_empty_file() -> None:
    assert module("") == module("\n\n# only a comment\n")


def test_use() -> None:
    first, second = module('use A, β from "layers.xg"\nuse GQA from llama\n').uses
    assert [name.name for name in first.names] == ["A", "beta"]
    assert isinstance(first.origin, ast.Text)
    assert first.origin.value == "layers.xg"
    assert isinstance(second.origin, ast.Name)
    assert second.origin.name == "llama"


def test_dims_meshes_and_options() -> None:
    tree = module("dim B, D = 64\nmesh N_T = 3\noption norm = pre | post, f = g\ndim N = B*D")
    assert [(dim.name.name, dim.size is None) for dim in tree.dims] == [
        ("B", True),
        ("D", False),
        ("N", False),
    ]
    assert [mesh.name.name for mesh in tree.meshes] == ["N_T"]
    words = [[word.name for word in option.words] for option in tree.options]
    assert words == [["pre", "post"], ["g"]]


def test_an_operator() -> None:
    text = "op LN(x [.., D]; γ, β [D], eps = 1e-5, kind = a | b) = x - μ\n  where μ = x,\n  v = 1"
    (op,) = module(text).ops
    assert op.name.name == "LN"
    (x,) = op.data
    assert x.shape is not None
    assert isinstance(x.shape.dims[0], ast.Rest)
    gamma, beta, eps, kind = op.own
    assert (gamma.name.name, gamma.shape) == ("gamma", beta.shape)
    assert (eps.shape, eps.words) == (None, ())
    assert isinstance(eps.default, ast.Number)
    assert (kind.default, [word.name for word in kind.words]) == (None, ["a", "b"])
    assert [binding.name.name for binding in op.bindings] == ["mu", "v"]


def test_data_of_an_operator_may_have_no_shape() -> None:
    (op,) = module("op add(a, b) = a + b").ops
    assert [port.shape for port in op.data] == [None, None]


def test_the_head_of_a_block() -> None:
    text = 'block LM "Title" (ids [B, S] in V, X, Y [B]; p = 0.1) -> Z [B], loss [] {\n}'
    (tree,) = module(text).blocks
    assert tree.title is not None
    assert tree.title.value == "Title"
    ids, x, y = tree.data
    assert ids.range is not None
    assert x.shape == y.shape
    assert x.range is None
    assert [own.name.name for own in tree.own] == ["p"]
    assert [(port.name.name, port.shape and len(port.shape.dims)) for port in tree.outputs] == [
        ("Z", 1),
        ("loss", 0),
    ]


def test_the_body_of_a_block() -> None:
    tree = block(
        "param W_Q, W_K [D, D], b, c [D] = zeros",
        "dim T = 3",
        "state K_c, V_c [B, T]",
        "X -> S : Y",
        "next K_c = K, V_c = V",
    )
    q, k, b, c = tree.params
    assert q.shape == k.shape
    assert q.init is None
    assert (b.shape, b.init) == (c.shape, c.init)
    assert [dim.name.name for dim in tree.dims] == ["T"]
    assert [state.name.name for state in tree.states] == ["K_c", "V_c"]
    assert [binding.name.name for binding in tree.nexts] == ["K_c", "V_c"]
    assert len(tree.chains) == 1


def test_where_frozen_is_does_not_count() -> None:
    one = block("param W [D, D] frozen", "X -> S : Y")
    assert one == block("", "param W  [D, D]   frozen", "X -> S : Y")
    assert one != block("param W [D, D]", "X -> S : Y")


def test_a_block_in_one_line() -> None:
    (tree,) = module("block F(X [B]) -> Y [B] { X -> S : Y }").blocks
    assert len(tree.chains) == 1


def test_the_brace_may_stand_in_its_own_line() -> None:
    (tree,) = module("block F(X [B]) -> Y [B]\n{\n X -> S : Y\n}").blocks
    assert len(tree.chains) == 1


def test_a_plan() -> None:
    text = 'plan FSDP "Title" of LM {\n  ids, layers.*.W [B/N_D, S]\n  * [_/N_D, ..] -> [..]\n}'
    (plan,) = only(ast.Plan, module(text).plan_decls)
    assert (plan.name.name, plan.block.name) == ("FSDP", "LM")
    first, second = plan.placements
    assert [target.name for target in first.targets] == ["ids", "layers.*.W"]
    assert first.in_use is None
    assert [target.name for target in second.targets] == ["*"]
    assert second.in_use is not None


@pytest.mark.parametrize("times", ["×", "*"])
def test_a_product_of_plans(times: str) -> None:
    decls = module(f'plan SP "Title" = TP {times} Stream {times} DP').plan_decls
    (plan,) = only(ast.PlanProduct, decls)
    assert [factor.name for factor in plan.factors] == ["TP", "Stream", "DP"]


def test_an_example() -> None:
    text = """example "The cat" of Mini {
        given X = [[1, 2],
                   [3, 4]], layers.0.W = 1
        expect loss = 0.50 ± 5e-3 "Step 7" wrong "a misprint"
        expect dW_2 = 1
    }"""
    (tree,) = module(text).examples
    assert tree.title is not None
    assert (tree.title.value, tree.block.name) == ("The cat", "Mini")
    assert [given.target.name for given in tree.givens] == ["X", "layers.0.W"]
    first, second = tree.expects
    assert first.tolerance is not None
    assert first.place is not None
    assert first.wrong is not None
    assert (first.place.value, first.wrong.value) == ("Step 7", "a misprint")
    assert (second.tolerance, second.place, second.wrong) == (None, None, None)


def test_the_edition() -> None:
    tree = module("# a comment\nedition 1\ndim B").edition
    assert tree is not None
    assert tree.value == 1


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("edition 2", "XG0135", 1),
        ("dim B\nedition 1", "XG0135", 2),
        ("edition 1\nedition 1", "XG0135", 2),
        ("dim A = _", "XG0133", 1),
        ("dim B S", "XG0115", 1),
        ("dim = 3", "XG0110", 1),
        ("dim B = 3;", "XG0125", 1),
        ("X -> S : Y", "XG0126", 1),
        ("expect loss = 1", "XG0126", 1),
        ("use A from b.xg", "XG0127", 1),
        ("block F(X [B]) -> Y [B]:\n  X -> S : Y\n}", "XG0120", 1),
        ("block F(X [B], p = 1) -> Y [B] {\n}", "XG0118", 1),
        ("block F(X) -> Y [B] {\n}", "XG0132", 1),
        ("block F(X [B]) -> Y {\n}", "XG0132", 1),
        ("block F(X [B]) -> Y [B] {\nX -> S : Y", "XG0114", 1),
        ("}", "XG0113", 1),
        ("option a = 1 | 2", "XG0110", 1),
        ("plan A = B C", "XG0110", 1),
    ],
)
def test_refused(text: str, code: str, line: int) -> None:
    assert [(found, at) for found, at, _ in mistakes(text)] == [(code, line)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("param W", "XG0132"),
        ("state K", "XG0132"),
        ("param W: [D]", "XG0121"),
        ("param in [D]", "XG0117"),
        ("param W [_]", "XG0133"),
    ],
)
def test_refused_in_a_block(line: str, code: str) -> None:
    assert [found for found, _, _ in mistakes(HEAD + line + "\n}\n")] == [code]
