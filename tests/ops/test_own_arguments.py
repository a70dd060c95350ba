"""Each value in a node's parentheses reaches the argument that it is meant for."""

import pytest

from xg.diagnostics.diagnostic import DiagnosticError, Source
from xg.ir.dim import as_scalar
from xg.ir.graph import Apply
from xg.ir.use import Attrs
from xg.passes.resolve import resolve
from xg.syntax import ast
from xg.syntax.parse import parse


def attrs(node: str) -> Attrs:
    text = f"dim S, D = 4\nblock F(X [S, D]) -> Y [S, D] {{\n    X -> {node} : Y\n}}\n"
    program = resolve(parse(Source("own.xg", text)), _no_file)
    (step,) = program.main.steps
    assert isinstance(step, Apply)
    return step.attrs


def _no_file(use: ast.Use) -> ast.Module:
    raise AssertionError("one file is enough")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("RoPE", {"base": as_scalar(1e4), "layout": "half"}),
        ("RoPE(500)", {"base": as_scalar(500), "layout": "half"}),
        ("RoPE(interleaved)", {"base": as_scalar(1e4), "layout": "interleaved"}),
        ("RoPE(500, interleaved)", {"base": as_scalar(500), "layout": "interleaved"}),
        ("RoPE(interleaved, base=500)", {"base": as_scalar(500), "layout": "interleaved"}),
        ("RoPE(interleaved, 500)", {"base": as_scalar(500), "layout": "interleaved"}),
        ("RoPE(layout=interleaved)", {"base": as_scalar(1e4), "layout": "interleaved"}),
        ("SM(causal)", {"scale": as_scalar(1), "mask": "causal"}),
        ("SM(0.5, causal)", {"scale": as_scalar(0.5), "mask": "causal"}),
        ("DO(0.1, unscaled)", {"p": as_scalar(0.1), "scaling": "unscaled"}),
        ("GELU(exact)", {"form": "exact"}),
    ],
)
def test_arguments_come_in_order_by_name_or_as_words(node: str, expected: Attrs) -> None:
    found = attrs(node)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("RoPE(500, base=500)", "RoPE is given base twice"),
        ("RoPE(half, interleaved)", "RoPE is given layout twice"),
        (
            "RoPE(500, half, 8, 1, 4, 9, pairs, 2)",
            "RoPE takes base, layout, factor, low, high, trained, change in",
        ),
        ("GELU(fast=1)", "GELU takes form in parentheses, not fast"),
        ("DO", "DO needs p in parentheses"),
    ],
)
def test_what_does_not_fit_is_refused(node: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        attrs(node)
