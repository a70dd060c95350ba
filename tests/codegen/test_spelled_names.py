"""How names and titles of a diagram are spelled in Python."""

from __future__ import annotations

from xg.codegen.emit.names import (
    Names,
    avoiding,
    camel,
    identifier,
    mentioned_names,
    plain,
    safe,
    spell_symbol,
)
from xg.ir.labels import snake


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


def test_a_name_is_given_out_once() -> None:
    names = Names(("X",))
    wanted = ("X", "X", "Y", "class", "class", "match", "V_1")
    given = ("X_2", "X_3", "Y", "class_", "class_2", "match_", "V_1")
    assert tuple(plain(names.fresh(name)) for name in wanted) == given


def test_a_name_of_the_module_is_given_to_nothing_else() -> None:
    names = Names()
    with avoiding({"size": frozenset({"np"}), "variable": frozenset({"one", "U_2"})}):
        wanted = ("one", "np", "U", "U")
        assert [plain(names.fresh(name)) for name in wanted] == ["one_", "np", "U", "U_3"]
        sizes = ("np", "np_", "one", "D", "is", "case")
        spelled = ["np_", "np__", "one", "D", "is_", "case_"]
        assert [plain(spell_symbol(name)) for name in sizes] == spelled


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
    assert mentioned_names(['x_1 = f("y, z")  # w', "a.b"]) == {"x_1", "f", "a", "b"}
