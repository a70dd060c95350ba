"""Of values that are chosen in part, each rank shuts its own term of a gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fuzz.plans import differs
from numpy.typing import NDArray
from sharding.ranks import interpreted

import xg
from xg.ir.body import Body
from xg.ir.dim import symbol
from xg.ir.placement import CONSTANT, GATE, PARTIAL, REPLICATED, AxisState, shard
from xg.ir.prim import Expr, const, operand, reduce_max, where
from xg.ir.primitive_gradients import any_open
from xg.sharding.primitive_rules import IllTyped, type_body

FORMULAS = (
    "min(tanh(g), x)",
    "min(sqrt(g), x)",
    "min(tanh(g), x) + max(x, sqrt(g))",
    "min(tanh(g), x) * sum[k](max(x, sqrt(g)))",
    "select(x > g, x, sqrt(abs(g) + 1) + 1/g)",
)
CUTS = {"B": "X [B/N_T, S, D]", "S": "X [B, S/N_T, D]"}


def written(formula: str, cut: str) -> str:
    return f"""\
dim B = 4, S = 6, D = 2
mesh N_T = 2
op L(x [.., k]; g [k]) = {formula}
block Main(X [B, S, D]) -> Y [B, S, D] {{
    param γ [D] = ones
    X -> L(γ) : Y [B, S, D]
}}
plan P of Main {{
    {cut}
}}
"""


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_parameter_that_some_values_choose(formula: str, cut: str, tmp_path: Path) -> None:
    file = tmp_path / "gates.xg"
    file.write_text(written(formula, CUTS[cut]), encoding="utf-8")
    many = xg.compile(file, plan="P")
    assert not differs(many, 0)
    assert not differs(many, 1)


def test_a_slope_that_is_none_counts_where_it_is_chosen_alone(tmp_path: Path) -> None:
    """√γ has no slope at -1: nothing chooses it there, on one rank by no value of its own."""
    file = tmp_path / "gates.xg"
    file.write_text(written("select(x > 0, x, sqrt(g))", CUTS["B"]), encoding="utf-8")
    many = xg.compile(file, plan="P")
    x: NDArray[np.float64] = np.abs(np.random.default_rng(0).standard_normal((4, 6, 2))) + 0.1
    x[3, 2, 1] = -1.0  # of the second rank, and of the parameter's second number
    params, inputs = {"gamma": np.array([-1.0, 2.0])}, {"X": x}
    with np.errstate(invalid="ignore"):
        found = interpreted(many.on_one_device, many, params, inputs)
    assert max(found.values()) < 1e-12, found


def test_a_gate_is_nothing_but_a_gate() -> None:
    """A condition of one part may shut a term of a sum, and nothing else."""
    x = operand("x", (symbol("B"), symbol("D")))
    y = operand("y", (symbol("D"),))
    gate = any_open(where(x > 0.0, const(1.0), 0.0), 0, keep=False) > 0.0
    cut, cut_of_y = shard(-2), shard(-1)

    def state(made: Expr, of_y: AxisState) -> AxisState:
        body = Body((x, y), (made,))
        return type_body(body, [cut, of_y], "N").of(body.outputs[0])

    assert state(where(gate, y, 0.0), PARTIAL) == PARTIAL
    assert state(where(gate, const(1.0), 0.0), CONSTANT) == GATE
    for wrong, of_y in (
        (where(gate, y, 0.0), REPLICATED),
        (where(gate, 0.0, y), PARTIAL),
        (where(gate, y, 1.0), PARTIAL),
        (where(gate, y, y), PARTIAL),
        (where(const(0.0) > any_open(x, 0, keep=False), y, 0.0), PARTIAL),
        (where(gate, y, 0.0), cut_of_y),
    ):
        with pytest.raises(IllTyped, match="a condition of one part"):
            state(wrong, of_y)


def test_the_largest_of_a_program_is_that_of_all_ranks() -> None:
    x = operand("x", (symbol("B"), symbol("D")))
    y = operand("y", (symbol("D"),))
    largest = where(reduce_max(x, 0, keep=False) > 0.0, y, 0.0)
    with pytest.raises(IllTyped, match="the maximum of one part"):
        type_body(Body((x, y), (largest,)), [shard(-2), PARTIAL], "N")
