"""No operator takes brackets that it does not read, wherever they are."""

from __future__ import annotations

import pytest

from xg import ops
from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.ir.op import Op
from xg.passes.infer import infer
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.parse import parse

# The brackets of grad name values.
WRITTEN = [
    op
    for op in ops.table().values()
    if not op.derived and op.family != "collective" and op.brackets != "values"
]
LISTS = ("[S]", "[n=7]", "[S, D]", "[(S, D)]", "[..]", "[-1]")
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


# The last axis is their channels or elements, they take integers, or give two values.
PLACED = ("conv", "overlap", "gather", "scatter", "topk")
COUNTED = [op for op in WRITTEN if op.brackets == "axes" and op.glyph not in PLACED]
WIDE = ("window", "maxpool", "meanpool", "upsample", "topk")


@pytest.mark.parametrize(
    "source", ["fill", "normal", "uniform", "bernoulli", "X -> sum[B, S, D] -> BC"]
)
def test_new_axes_have_sizes(source: str) -> None:
    """By a name of a size, or beside a name of their own; not by any other name."""
    own = {"uniform": "(0, 1)", "bernoulli": "(0.5)"}.get(source, "(1)")
    own = "" if "BC" in source else own
    for brackets in ("[B, S, D]", "[B, S, d=D]", "[b=B, s=2*S/2, d=D]"):
        assert refusals(source, brackets, own, start="") == set()
    assert "XG0203" in refusals(source, "[B, S, d]", own, start="")


@pytest.mark.parametrize("op", COUNTED, ids=lambda op: op.glyph)
def test_what_names_an_axis_can_count_to_it(op: Op) -> None:
    """Axes of one size are distinguished by their places from the end."""
    own = {"pick": "(0)", "slice": "(0, 1)", "C": "<-Z", "LN": "(w, w)"}.get(op.glyph, "")
    if op.glyph == "SM":
        own = "(causal)"
    if op.glyph in WIDE:
        own = "(3)"
    for first, second in (("[-1]", "[-2]"), ("[-2]", "[-3]")):
        if op.glyph == "SM":
            first, second = "[-2, -1]", "[-3, -2]"
        shapes = [_output(f"{op.glyph}{brackets}{own}") for brackets in (first, second)]
        assert all(shapes)
    with pytest.raises(DiagnosticError, match="no axis -4"):
        _output(f"{op.glyph}[-4]{own}")
    if op.glyph != "C":
        with pytest.raises(DiagnosticError, match="count from the end: -3 or -2 or -1 instead"):
            _output(f"{op.glyph}[S]{own}")


def _output(node: str) -> str:
    """The shape of what a node makes of three equal axes."""
    text = f"""
dim S = 3
block Net(X [S, S, S], Z [S, S, S]) -> Y [S, S, S] {{
    param w [S]
    X -> {node} : made
    Z -> ⊕<-BC(w) : Y
}}
"""
    graphs = infer(resolve(parse(Source("case.xg", text)), _no_file))
    (made,) = (value for value in graphs.main.types if value.name == "made")
    return str(graphs.main.types[made])


@pytest.mark.parametrize("places", ["0", "-0", "-1.5", "-100", "2"])
def test_places_that_there_are_not(places: str) -> None:
    assert refusals("mean", f"[{places}]") == {"XG0136"}


@pytest.mark.parametrize(
    "op",
    # The brackets of a source are sizes; a label has one name here.
    [op for op in WRITTEN if op.brackets and op.family != "source" and len(op.outputs) < 2],
    ids=lambda op: op.glyph,
)
def test_what_takes_brackets_reads_them(op: Op) -> None:
    """An operator that declares brackets refuses those that fit nothing."""
    own = {"pick": "(0)", "slice": "(0, 1)", "conv": "(W)"}.get(op.glyph, "")
    own = "(3)" if op.glyph in WIDE else "<-t" if op.glyph in ("gather", "scatter") else own
    for kind, sample in (("axes", "[V]"), ("map", "[b, s -> s, b]")):
        if kind in op.brackets and (op.glyph, kind) != ("BC", "axes"):
            assert refusals(op.glyph, sample, own) == {"XG0301"}, sample
