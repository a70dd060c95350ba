"""Inputs where a function has a value, and ties: verify finds them, and says which they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from xg.frontend.project import parse_project, read_project
from xg.ir import primitive_gradients
from xg.ir.prim import Expr
from xg.ir.primitive_gradients import Cotangent
from xg.verify.gradient_proof import prove
from xg_runtime.errors import RunError

FOUND = {
    "log(x)": "inputs above 0",
    "x^0.5 + x^-1": "inputs above 0",
    "log(x) + log(1 - x)": "inputs between 0 and 1",
    "sqrt(x - 5)": "inputs above 10",
    "sqrt(1 + x^2)": "",
}


@pytest.mark.parametrize("formula", FOUND)
def test_inputs_that_a_function_takes(formula: str, tmp_path: Path) -> None:
    proof = prove(read_project(_file(formula, tmp_path)), "F", {"B": 5}, 1, ())
    assert proof.domain == FOUND[formula]
    assert proof.gradients.passed


def test_the_first_edge_is_named_where_no_inputs_fit(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"y is not a number .*line 4"):
        prove(read_project(_file("log(0 - x^2 - 1)", tmp_path)), "F", {"B": 5}, 1, ())


TIES = {  # operands that are equal at all inputs, and whether they move apart
    "max(x, stop(x))": True,
    "min(x, stop(x)) * x": True,
    "max(stop(x), min(x, stop(x) + 1))": True,
    "abs(x - stop(x)) + x": True,
    "max(x - stop(x), 0) * 3 + x": True,
    "max(x, stop(x)) + max(stop(x)*x, x*stop(x))": True,
    "select(x >= stop(x), x, 3*x)": False,
    "max(x, x + 0*stop(x))": False,
    "x*stop(x)": False,
}


@pytest.mark.parametrize("formula", TIES)
def test_ties_at_all_inputs_have_the_slopes_of_the_conventions(
    formula: str, tmp_path: Path
) -> None:
    proof = prove(read_project(_file(formula, tmp_path)), "F", {"B": 5}, 1, ("numpy",))
    assert proof.passed, proof.gradients
    assert proof.ties == (("f in line 4",) if TIES[formula] else ())


NET = """\
dim B, S = 2, D = 2
op Top(x [.., D]) = max[D](x)
op Least(x [.., S, D]) = min[S, D](x)
op Minus(x, s) = x - s
block F(x [B, S, D]) -> y [B, S, D], z {
    x -> stop       : s
    Minus(x, s)     : o
    NODES
    x -> ⊙<-x       : y
}
"""
ELEMENTS = {
    "x, s -> C : c [B, S, 2*D] -> R : [B, S, 2, D] -> T : [B, S, D, 2] -> Top : z [B, S, D]": "Top",
    "o -> Top : z [B, S]": "Top",
    "o -> Least : z [B]": "Least",
    "x, s -> C : c [B, S, 2*D] -> R : [B, S, 2, D] -> T[a, b, c, d -> a, c, b, d]"
    " : [B, 2, S, D] -> maxpool[-3](k=2) : z [B, 1, S, D]": "maxpool",
    "o -> ReLU : z [B, S, D]": "ReLU",
    "o -> topk(1) : z [B, S, 1], places [B, S, 1] in D": "",
}


@pytest.mark.parametrize("nodes", ELEMENTS)
def test_ties_of_elements_have_the_slopes_of_the_conventions(nodes: str) -> None:
    z = nodes.rpartition(" : ")[2].partition(", places")[0]
    text = NET.replace(", z {", f", {z} {{").replace("NODES", nodes)
    proof = prove(parse_project(text.encode()), "F", {"B": 2}, 1, ("numpy", "torch"))
    assert proof.passed, proof.gradients
    assert [tie.partition(" ")[0] for tie in proof.ties] == [n for n in (ELEMENTS[nodes],) if n]


def _larger_takes_all(y: Expr, d: Cotangent) -> Sequence[Cotangent | None]:
    return d, None


def test_a_wrong_slope_at_a_tie_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choices = cast("dict[str, object]", primitive_gradients.CHOOSING)
    monkeypatch.setitem(choices, "maximum", _larger_takes_all)
    proof = prove(read_project(_file("max(x, stop(x))", tmp_path)), "F", {"B": 5}, 1, ())
    assert proof.ties
    assert "measured" in proof.gradients.rows[0].reason


def _file(formula: str, folder: Path) -> Path:
    path = folder / "net.xg"
    path.write_text(
        f"dim B\nop f(x) = {formula}\nblock F(x [B]) -> y [B] {{\n    x -> f : y\n}}\n",
        encoding="utf-8",
    )
    return path
