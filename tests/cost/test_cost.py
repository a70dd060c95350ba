"""Costs: formulas against counts by hand, and against what generated modules hold."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from library import varied
from numpy.typing import NDArray
from saved import bytes_of
from tier import THOROUGH

import xg
from xg.cost.cost import ELEMENTWISE, MOVES, REDUCTIONS, cost, flops
from xg.cost.report import Memory
from xg.ir import prim
from xg.ir.dim import symbol
from xg.ir.functions import exp
from xg.verify.proof_sizes import verification_sizes
from xg.verify.reference.evaluate import MEANING
from xg.verify.reference.interpret import initial

LIBRARY = Path(__file__).parents[2] / "diagrams"
# What is written for one rank needs the others: tests/sharding/test_cost_of_ranks.py has it.
DIAGRAMS = sorted(path for path in LIBRARY.rglob("*.xg") if path.stem != "node_i")
B, M, K, N = (symbol(name) for name in "BMKN")


def test_a_memory_is_the_sum_of_its_parts() -> None:
    assert str(Memory(B, M, K, N).total) == str(B + M + K + N)


def test_a_product_is_two_for_each_term() -> None:
    a, b = prim.operand("a", (B, M, K)), prim.operand("b", (K, N))
    assert flops([prim.contract(a, b, "bmk,kn->bmn")]) == B * M * K * N * 2


def test_what_is_shared_counts_once_and_numbers_not_at_all() -> None:
    x = prim.operand("x", (B, N))
    e = exp(x * 2.0)
    assert flops([e + e]) == B * N * 3
    assert flops([x * (prim.const(2.0) + 1.0)]) == B * N


def test_moves_cost_nothing_and_reductions_what_they_read() -> None:
    x = prim.operand("x", (B, N))
    assert str(flops([prim.transpose(prim.broadcast(x, (M, B, N)), (0, 2, 1))])) == "0"
    assert flops([prim.reduce_sum(x, -1)]) == B * N


def test_every_primitive_has_one_price() -> None:
    prices = [*ELEMENTWISE, *REDUCTIONS, *MOVES, "contract"]
    assert sorted(prices) == sorted({*MEANING, "operand"})


def test_the_numbers_of_attention() -> None:
    found = xg.compile(LIBRARY / "notation" / "mha.xg").cost()
    rows = {row.name: row.amount for row in found.blocks[0].rows}
    assert str(rows["• : A"].forward) == "2*B*D*S^2"
    assert str(rows["• : A"].backward) == "4*B*D*S^2"
    assert str(found.total.parameters) == "6*D + 4*D^2"


def test_a_parameter_counts_where_it_is_read() -> None:
    found = xg.compile(LIBRARY / "notation" / "mlp.xg").cost()
    rows = [(row.name, str(row.amount.parameters)) for row in found.blocks[0].rows]
    counts = ["2*D", "4*D^2", "4*D", "0", "0", "4*D^2", "D", "0", "0", "0"]
    assert [count for _, count in rows[1:-1]] == counts


def test_a_repetition_costs_its_count_times_one() -> None:
    found = xg.compile(LIBRARY / "models" / "transformer.xg").cost()
    lm, layer, *_ = found.blocks
    (row,) = (row for row in lm.rows if row.callee == layer.graph.key)
    assert row.name == "N_L × Layer"
    for many, one in zip(row.amount.dims()[:3], layer.total.dims()[:3], strict=True):
        assert many == one * symbol("N_L")


SHARED = """\
dim B, D = 4, N = 3
block F(X [B, D], M [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> ⊕<-M : Y
}
block Net(X [B, D], M [B, D]) -> Y [B, D] {
    param V [D, D]
    X -> •<=V  : H
    H, M -> F as f : G
    G, M -> f -> •<=f.W -> N × F<-M as row : Y
}
"""


def test_gradients_of_shared_parameters_and_of_rows_are_summed(tmp_path: Path) -> None:
    """W is used by f twice and once outside of it; M by f twice, and by each round of the row."""
    (tmp_path / "shared.xg").write_text(SHARED, encoding="utf-8")
    found = xg.compile(tmp_path / "shared.xg").cost()
    rows = {row.name: row.amount for row in found.blocks[0].rows}
    (b, d, n) = (symbol(name) for name in "BDN")
    of_parameters = d * d * 2
    of_m = b * d * 2 + b * d * (n - 1)
    assert rows["sums of gradients"].backward == of_parameters + of_m
    total = found.total
    assert total.parameters == d * d * (n + 2)  # V, that of f, and one for each round
    assert found.compared[:1] + found.compared[2:3] == (
        total.parameters,
        total.forward + total.backward,
    )


LOOPED = """\
dim B, S, D = 4
block Cell(x [B, D]) -> y [B, D] {
    param W [D, D]
    state h [B, D] = zeros
    x -> •<=W -> ⊕<-h : y
    next h = y
}
block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S : Y
}
"""


def test_gradients_of_a_loops_parameters_are_summed_over_its_rounds(tmp_path: Path) -> None:
    (tmp_path / "looped.xg").write_text(LOOPED, encoding="utf-8")
    found = xg.compile(tmp_path / "looped.xg").cost()
    (s, d) = (symbol(name) for name in "SD")
    rows = {row.name: row.amount for row in found.blocks[0].rows}
    assert rows["sums of gradients"].backward.substitute({"B": symbol("B") * 0}) == d * d * (s - 1)


AGAIN = """\
dim B, D = 4
block F(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> GELU : Y
}
block G(X [B, D]) -> Y [B, D] {
    X -> F as inner -> tanh : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> G as first -> G as second : Y
}
plan Again of Net {
    second again
}
"""


def test_a_call_that_runs_again_costs_its_forward_pass_twice(tmp_path: Path) -> None:
    (tmp_path / "again.xg").write_text(AGAIN, encoding="utf-8")
    once = xg.compile(tmp_path / "again.xg").cost()
    twice = xg.compile(tmp_path / "again.xg", plan="Again").cost()
    inner = next(block.total for block in once.blocks if block.graph.block == "F")
    of_tanh = symbol("B") * symbol("D")
    assert twice.total.forward == once.total.forward
    assert twice.total.backward - once.total.backward == inner.forward + of_tanh
    assert once.total.saved - twice.total.saved == inner.saved + of_tanh * 4


def test_a_step_has_no_backward_pass(tmp_path: Path) -> None:
    text = "dim B, S, D = 4\nblock F(X [B, S, D]) -> Y [B, S, D] {\n    param W [D, D]\n"
    (tmp_path / "step.xg").write_text(f"{text}    X -> •<=W -> ⊕<-X : Y\n}}\n", encoding="utf-8")
    total = xg.compile(tmp_path / "step.xg").step().cost().cost.total
    (b, s, d) = (symbol(name) for name in "BSD")  # S are the new positions
    assert total.backward.terms == ()
    assert total.forward == b * s * d * d * 2 + b * s * d


@pytest.mark.parametrize(
    "path", [path for path in DIAGRAMS if THOROUGH or varied(path)], ids=lambda path: path.stem
)
def test_parameters_and_saved_bytes_are_those_of_the_module(path: Path) -> None:
    draft = xg.compile(path)
    program = xg.compile(path, sizes=verification_sizes(draft.graphs, {}))
    params = initial(program.graphs)
    _, saved = program.load().forward(params, _inputs(program), seed=1)
    numbers = program.graphs.main.sizes.bind({})
    total = cost(program.graphs, "float64").total
    assert total.parameters.evaluate(numbers) == sum(array.size for array in params.values())
    assert total.saved.evaluate(numbers) == bytes_of(saved, params.values())


def _inputs(program: xg.Program) -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(0)
    made: dict[str, NDArray[Any]] = {}
    for name, spec in program.inputs.items():
        shape = cast("tuple[int, ...]", spec.shape)
        bound = cast("int", spec.range)
        made[name] = draw.integers(0, bound, shape) if bound else draw.standard_normal(shape)
    return made


def test_the_inputs_that_are_saved_have_a_row_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(INPUTS, encoding="utf-8")
    (block,) = xg.compile(tmp_path / "net.xg").cost().blocks
    assert [(row.name, row.line) for row in block.rows] == [("inputs", None), ("• : Y", 4)]
    assert block.rows[0].amount.saved == symbol("B") * symbol("D") * 4


INPUTS = """\
dim B, D = 4
block Net(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
"""
