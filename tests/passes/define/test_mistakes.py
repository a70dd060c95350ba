"""Errors in definitions of operators: code, place and words."""

import pytest

from xg.diagnostics.diagnostic import DiagnosticError, Source, render
from xg.passes.resolve.define import define
from xg.passes.resolve.define.signature import NAMES
from xg.syntax.parse import parse

MISTAKES = [
    # the definition, the code, the underlined text, some of the words
    ("op F(x [D, ..]) = x", "XG0250", "..", "`..` goes before"),
    ("op F(x [S, S]) = x", "XG0250", "[S, S]", "two axes of the same name"),
    ("op F(x [.., 2*D]) = x", "XG0250", "2*D", "the axes of an op need names"),
    ("op F(x [S] in 2*V) = float(x)", "XG0250", "2*V", "the range of an operand is a name"),
    ("op F(x [S] in V) = x", "XG0266", "x", "use float(i) for floats"),
    ("op F(x [S]) = x * range[S](1/2)", "XG0253", "1/2", "a start made of sizes"),
    ("op F(x [S]) = x * range[T]", "XG0253", "range[T]", "range[S] or range[S](START)"),
    ("op F(x [..]) = x * range[..]", "XG0253", "range[..]", "range[S] or range[S](START)"),
    ("op F(x [S]) = x * range[S](1, 2)", "XG0253", "range[S](1, 2)", "or range[S](START)"),
    ("op F(x [S]) = x * range", "XG0251", "range", "F has no operand or part range"),
    ("op F(x) = select(and(x, x > 1), x, 0)", "XG0257", "x", "a comparison is needed here"),
    ("op F(x) = select(or(x > 1), x, 0)", "XG0253", "or(x > 1)", "or(a > b, c > d)"),
    ("op F(x) = equal(x)", "XG0253", "equal(x)", "equal(x, y)"),
    ("op F(x) = x * inf", "XG0251", "inf", "inf only works in `select`"),
    ("op F(x; range) = x > range", "XG0250", "range", "the range of a mask is 2"),
    ("op F(x; g [D] = ones) = x * g", "XG0250", "g [D] = ones", "has no default"),
    ("op F(x; m = a | b) = x", "XG0250", "m = a | b", "an expression has no options"),
    ("op F(x; a = 1/D) = a * x", "XG0251", "D", "F has no operand or part D"),
    ("op F(x; a = tanh(1)) = a * x", "XG0250", "tanh(1)", "a default is a number"),
    ("op F(x [.., D]; D = 3) = x * D", "XG0250", "D", "is an axis of F"),
    ("op F(x [.., D], D [..]) = x * D", "XG0250", "D", "its length"),
    ("op F(x [.., D]) = x * D where D = sum[D](x)", "XG0250", "D", "give the part another name"),
    ("op F(x) = x + y", "XG0251", "y", "F has no operand or part y"),
    ("op F(x) = a where a = b, b = x", "XG0251", "b", "`where` is read from top to bottom"),
    ("op F(x) = x + bert.E", "XG0251", "bert.E", "F has no operand or part bert.E"),
    ("op F(x) = silu(x)", "XG0252", "silu", "there are exp, log"),
    ("op F(x) = SiLU(x)", "XG0252", "SiLU", "write it out: x * sigmoid(x)"),
    ("op F(x) = S(x)", "XG0252", "S", "write it out: exp(x - m) / sum[D](exp(x - m))"),
    ("op F(x) = x*log(2*pi)", "XG0251", "pi", "write the number, 3.141592653589793"),
    ("op F(x [.., D]) = prod[D](x)", "XG0252", "prod", "there are exp, log"),
    ("op F(x) = exp(x, x)", "XG0253", "exp(x, x)", "expected exp(x)"),
    ("op F(x) = sigmoid(x, x)", "XG0253", "sigmoid(x, x)", "expected sigmoid(x)"),
    ("op F(x) = max(x)", "XG0253", "max(x)", "or max[D](x) over an axis"),
    ("op F(x) = mean(x)", "XG0253", "mean(x)", "expected mean[D](x)"),
    ("op F(x) = select(x)", "XG0253", "select(x)", "select(condition"),
    ("op F(x [.., D]) = exp[D](x)", "XG0253", "exp[D](x)", "exp without brackets"),
    ("op F(x [.., D]) = sum[D](x, x)", "XG0253", "sum[D](x, x)", "expected sum[D](x)"),
    ("op F(x) = max(x, y=0)", "XG0253", "max(x, y=0)", "without names"),
    ("op F(x) = sum[D](x)", "XG0254", "D", "there is no axis D to reduce: the operand has [..]"),
    ("op F(x [.., D]) = mean[D](sum[D](x))", "XG0254", "D", "there is no axis D to reduce"),
    ("op F(x [.., D]) = mean[D](2) * x", "XG0254", "D", "the operand has []"),
    ("op F(x [S]) = sort(x)", "XG0252", "sort", "before or after the op: -> topk[S](S)"),
    ("op F(x [S]) = argmin[S](x)", "XG0252", "argmin", "-> scale(-1) -> topk[S](1)"),
    ("op F(x [S]) = x * range[T]", "XG0253", "range[T]", "the length of another axis: op F(…; T)"),
    ("op F(x [.., 1]) = x", "XG0250", "1", "leave it out: what has an axis less is repeated"),
    ("op F(x [S, S]) = x", "XG0250", "[S, S]", "write [S, S_2]"),
    ("op F(x [S_2, S, S]) = x", "XG0250", "[S_2, S, S]", "write [S_2, S, S_3]"),
    ("op F(x, y) = x", "XG0255", "y", "F does not use y"),
    ("op F(x, y) = x", "XG0255", "y", "take positions along them as operands: `op F(i [S] in S)"),
    ("op F(x; a = 1) = x", "XG0255", "a", "use it, or leave it out"),
    ("op F(x; a = 1) = x", "XG0255", "a", "F does not use a"),
    ("op F(x) = x where a = x", "XG0255", "a", "F does not use a"),
    ("op F(x, x) = x", "XG0256", "x", "the name x is taken"),
    ("op F(x) = x where x = 2", "XG0256", "x", "the name x is taken"),
    ("op F(x) = x * (x > 0)", "XG0257", "x > 0", "a comparison is not a number"),
    ("op F(x) = exp(x > 0)", "XG0257", "x > 0", "a comparison is not a number"),
    ("op F(x) = select(x, 1, 0)", "XG0257", "x", "a comparison is needed here"),
    ("op F(x) = select(x > 0, x > 1, 0)", "XG0257", "x > 1", "a comparison is not a number"),
    ("op F(x) = m * x where m = x > 0", "XG0257", "m", "a comparison is not a number"),
    ("op F(x, y) = x^y", "XG0258", "y", "an exponent must be a number"),
    ("op F(x [.., S]) = x * (-1)^range[S]", "XG0276", "-1", "a base must be above 0"),
    ("op F(x [S, D]) = x * (D - 5)^range[S]", "XG0276", "D - 5", "exp(log(D - 5) * (range[S]))"),
    ("op F(x; D = 4) = x * range[D]", "XG0250", "D = 4", "the length of an axis"),
    ("op F(x) = 1/0 * x", "XG0259", "1/0 * x", "is not a finite number"),
    ("op F(x) = sqrt(0 - 1) * x", "XG0259", "sqrt(0 - 1)", "is not a finite number"),
    ("op F(x) = log(0) * x", "XG0259", "log(0)", "is not a finite number"),
    ("op F(x) = (0 - 1)^(1/2) * x", "XG0259", "(0 - 1)^(1/2)", "is not a finite number"),
    ("op F(x) = x * 10^400", "XG0259", "10^400", "is not a finite number"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "place", "words"), MISTAKES, ids=lambda part: part)
def test_a_mistake_is_told_with_its_place(text: str, code: str, place: str, words: str) -> None:
    (definition,) = parse(Source("ops.xg", text + "\n")).ops
    with pytest.raises(DiagnosticError) as caught:
        define(definition)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert diagnostic.span
    assert diagnostic.span.text == place
    assert words in render([diagnostic], color=False)


def test_every_code_has_a_mistake() -> None:
    numbers = (*range(250, 260), 266, 276)
    assert {code for _, code, _, _ in MISTAKES} == {f"XG{number:04}" for number in numbers}


def test_all_that_is_unused_is_told_at_once() -> None:
    (definition,) = parse(Source("ops.xg", "op F(x, y; a = 1) = x\n")).ops
    with pytest.raises(DiagnosticError) as caught:
        define(definition)
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [
        "F does not use y",
        "F does not use a",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_function_that_the_help_lists_exists(name: str) -> None:
    others = {"max": "x, 1", "min": "x, 1", "select": "x > 0, x, 1", "equal": "x, 1"}
    others |= {"and": "x > 0, 1 > x", "or": "x > 0, 1 > x", "range[D]": "2"}
    body = f"{name}({others.get(name, 'x')})"
    body = f"x * {body}" if name in ("range[D]", "argmax[D]") else body
    (definition,) = parse(Source("ops.xg", f"op F(x [.., D]) = {body}\n")).ops
    assert define(definition).glyph == "F"
