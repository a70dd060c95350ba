"""Where the name at a place is declared."""

from pathlib import Path

import pytest
from editor.meaning.places import declared, line_of

from xg.diagnostics.diagnostic import Source
from xg.frontend.project import library_files
from xg.syntax.parse import parse, parse_partly
from xg_editor.navigation import outline, trail

FILE = """\
dim B, D = 4
option act = ReLU | tanh
op Half(x; a = 2) = x / b
    where b = a

block Inner(X [B, D]; mask = none | causal, p = 0.1) -> Y [B, D] {
    dim E = D
    param W [D, E], γ [D] = ones
    X -> LN(γ) if act = tanh : H
      -> •<=W
      -> Half(a=4) -> DO(p)  : Y
}

block Outer(X [B, D]) -> Z [B, D], A [B, B] {
    X -> Inner(causal, mask=none) as first : F [B, D]
      -> first                             : G
      -> •<=T(first.W) -> act              : Z
    X -> Inner(B=2)
      -> •<=(X -> T)                       : A
    highlight F
    note first "the same mask again"
}

plan P of Outer {
    first.W [D, D]
}
plan Q = P × P

example "One" of Inner {
    given W = [[1]]
    expect dW = [[2]]
}
"""

LINES = {  # the marked name is declared in that line; 0: in no file
    "param W [|D, E]": 1,
    "param W [D, |E]": 7,
    "X -> LN(|γ) if": 8,
    "    |X -> LN": 6,
    "->| LN(γ)": None,
    "-> L|N(γ)": 0,
    "if |act = tanh": 2,
    "if act = t|anh": 2,
    "<=|W\n": 8,
    "-> |Half(a": 3,
    "Half(|a=4": 3,
    "DO(|p)": 6,
    "x / |b": 4,
    "where b = |a": 3,
    "Inner(|causal": 6,
    "causal, |mask=": 6,
    "as fi|rst": 15,
    "-> |first  ": 15,
    "T(|first.W)": 15,
    "T(first.|W)": 8,
    "-> |act  ": 2,
    "Inner(|B=2)": 1,
    "-> |Inner(B": 6,
    ") -> |Z [": 17,
    "highlight |F": 15,
    "note |first": 15,
    "    |first.W [": 15,
    "first.|W [": 8,
    "plan P of |Outer": 14,
    "plan Q = |P": 24,
    "of |Inner {": 6,
    "given |W": 8,
    "expect |dW": 8,
    "|option act": None,
    "option act = |ReLU": 0,
}


@pytest.mark.parametrize("words", LINES)
def test_where_a_name_is_declared(words: str) -> None:
    before, behind = words.split("|")
    assert FILE.count(before + behind) == 1
    text = FILE.replace(before + behind, f"{before}‸{behind}")
    line = LINES[words]
    assert line_of(text) == (line or None)
    assert (declared(text) is None) == (line is None)


def test_just_behind_a_name_is_still_in_it() -> None:
    assert line_of(FILE.replace("<=W\n", "<=W‸\n")) == 8


def test_a_ring_of_files_does_not_hang(tmp_path: Path) -> None:
    text = 'use F from "f.xg"\nblock G(X []) -> Y [] {\n    X -> ‸F : Y\n}\n'
    (tmp_path / "f.xg").write_text(text.replace("‸", ""), encoding="utf-8")
    assert line_of(text) is None


@pytest.mark.parametrize("file", library_files(), ids=lambda file: file.stem)
def test_the_outline_has_every_declaration(file: Path) -> None:
    module = parse(Source(file.name, file.read_text(encoding="utf-8")))
    found = outline(module)
    small = (*module.dims, *module.meshes, *module.options, *module.ops)
    wanted = [*small, *module.blocks, *module.plan_decls]
    assert sorted(s.span.start for s in found) == sorted(d.name.span.start for d in wanted)
    for symbol in found:
        assert symbol.whole.start <= symbol.span.start
        assert symbol.span.end <= symbol.whole.end
        for inner in symbol.inside:
            assert symbol.whole.start <= inner.whole.start <= inner.whole.end <= symbol.whole.end


def test_the_trail_leads_from_the_name_to_the_file() -> None:
    module = parse(Source("f.xg", FILE))
    found = trail(module, FILE.index("γ) if"))
    assert [type(tree).__name__ for tree in found] == [
        *("Name", "Path", "Argument", "NodeUse", "Chain", "Block", "Module")
    ]


def test_what_is_left_of_a_half_typed_file() -> None:
    source = Source("f.xg", FILE.replace("if act = tanh", "if act ="))
    module, mistakes = parse_partly(source)
    assert module is not None
    assert [block.name.name for block in module.blocks] == ["Inner", "Outer"]
    assert len(mistakes) == 1
    assert parse_partly(Source("f.xg", "dim D\x00")).module is None
