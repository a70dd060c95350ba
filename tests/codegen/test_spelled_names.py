"""How names and titles of a diagram are spelled in Python."""

from __future__ import annotations

from xg.codegen.emit.names import camel, identifier, mentioned, safe, snake


def test_names_of_classes_and_functions() -> None:
    names = ("self attention", "MHA", "GatedMLP", "layer_norm-2", "x2Y", "2D")
    assert [camel(name) for name in names] == [
        "SelfAttention",
        "MHA",
        "GatedMLP",
        "LayerNorm2",
        "X2Y",
        "_2D",
    ]
    assert [snake(name) for name in names] == [
        "self_attention",
        "mha",
        "gated_mlp",
        "layer_norm_2",
        "x2y",
        "_2d",
    ]


def test_identifiers_and_titles() -> None:
    assert [identifier(name) for name in ("bert.E", "a b", "9", "", "é")] == [
        "bert_E",
        "a_b",
        "_9",
        "_",
        "_",
    ]
    assert safe('a\\b"""\n#') == "a/b''' #"


def test_names_in_code_are_not_those_in_strings_and_comments() -> None:
    assert mentioned(['x_1 = f("y, z")  # w', "a.b"]) == {"x_1", "f", "a", "b"}
