"""No operator takes brackets that it does not read, wherever they stand."""

from __future__ import annotations

import pytest

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.source import Source
from xg.ir.op import Op
from xg.passes.infer import infer
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.parse import parse

WRITTEN = [op for op in ops.table().values() if not op.derived and op.family != "collective"]
LISTS = ("[S]", "[n=7]", "[S, D]", "[(S, D)]", "[..]")
MAPS = ("[b, s, d -> b, d, s]", "[b, s, d -> b, s, (h=2, d)]")


def refusals(
    node: str, brackets: str, own: str = "", head: str = "", start: str = "X -> "
) -> set[str]:
    param = "param W [D, D]" if "W" in own else ""
    text = f"""
dim B = 2, S = 3, D = 4, V = 5
{head}
block Net(X [B, S, D], Z [B, S, D], t [B, S] in V) -> Y [B, S, D] {{
    {param}
    {start}{node}{brackets}{own} : Y
}}
"""
    try:
        infer(resolve(parse(Source("case.xg", text)), _no_file))
    except DiagnosticError as error:
        return {each.code for each in error.diagnostics}
    return set()


def _no_file(use: ast.Use) -> ast.Module:
    raise AssertionError(use)


@pytest.mark.parametrize("op", WRITTEN, ids=lambda op: op.glyph)
def test_brackets_are_read_or_refused(op: Op) -> None:
    """In each position: whatever operands it has, brackets that it does not declare are refused."""
    own = "<=W" if op.glyph == "•" else "<-Z" * len(op.data[1:])
    start = "X -> " if op.data or op.variadic else ""
    own = own if start else "(S, D)"
    for kind, samples in (("axes", LISTS), ("map", MAPS)):
        for sample in samples:
            if kind not in op.brackets:
                assert "XG0223" in refusals(op.glyph, sample, own, start=start), sample


@pytest.mark.parametrize("brackets", [*LISTS, *MAPS])
def test_blocks_and_operators_of_a_file_take_none(brackets: str) -> None:
    block = "block F(X [B, S, D]) -> Y [B, S, D] {\n    X -> tanh : Y\n}"
    assert refusals("F", brackets, head=block) == {"XG0223"}
    assert refusals("F", brackets, " as f", head=block) == {"XG0223"}
    assert refusals("f", brackets, head="op f(x) = x * 2") == {"XG0223"}
    assert refusals("act", brackets, head="option act = tanh | GELU") == {"XG0223"}
    assert refusals("tanh -> ⊕<-tanh", brackets, "(X)") == {"XG0223"}


@pytest.mark.parametrize("op", [op for op in WRITTEN if op.brackets], ids=lambda op: op.glyph)
def test_what_takes_brackets_reads_them(op: Op) -> None:
    """An operator that declares brackets refuses those that fit nothing."""
    own = {"pick": "(0)", "slice": "(0, 1)"}.get(op.glyph, "")
    for kind, sample in (("axes", "[V]"), ("map", "[b, s -> s, b]")):
        if kind in op.brackets and (op.glyph, kind) != ("BC", "axes"):
            assert refusals(op.glyph, sample, own) == {"XG0301"}, sample
