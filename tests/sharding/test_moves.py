"""Every move between states: what the ranks hold afterwards, and that its transpose is one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sharding.rank_bodies import join, split

import xg_runtime.ranks as ranks
from xg import ops
from xg.ir.collectives import MOVES
from xg.ir.dim import symbol
from xg.ir.moves import move, moved
from xg.ir.op import Term
from xg.ir.placement import INVARIANT, PARTIAL, REPLICATED, AxisState, dual, shard
from xg.ir.prim import operand
from xg.ir.use import Attrs
from xg.verify.reference.evaluate import Context, Mesh, evaluate
from xg_runtime.ranks import kinds

Array = NDArray[Any]
DOCUMENT = Path(__file__).parents[2] / "docs" / "adding-a-collective.md"
SIZES = {"A": 6, "B": 12, "N": 3}
SHAPE = (symbol("A"), symbol("B"))
KINDS = {
    "I": INVARIANT,
    "R": REPLICATED,
    "P": PARTIAL,
    "S": shard(-1),
}
ROWS = [
    (KINDS[source], shard(-2) if source == target == "S" else KINDS[target])
    for source, target in MOVES
    if source != "C"
]
NAMES = [f"{source} to {target}" for source, target in ROWS]


def moved_on(glyph: str, attrs: Attrs, parts: list[Array]) -> list[Array]:
    """The parts of all ranks behind a move."""
    source, over = attrs["source"], symbol("N")
    shape = list(SHAPE)
    if source.kind == "S":
        shape[source.axis] = shape[source.axis] / over
    body = moved(ops.table()[glyph], operand("x", tuple(shape)), attrs)
    context = Context(SIZES, mesh=cast(Mesh, ranks))

    def rank() -> Array:
        (out,) = evaluate([body], {"x": parts[ranks.rank("N")]}, context)
        return out

    return ranks.simulate({"N": 3}, rank)


@pytest.mark.parametrize(("source", "target"), ROWS, ids=NAMES)
def test_the_whole_stays_the_same(source: AxisState, target: AxisState) -> None:
    random = np.random.default_rng(1)
    whole = random.standard_normal((6, 12))
    parts = moved_on(*move("N", source, target), split(whole, source, 3, random))
    np.testing.assert_allclose(join(parts, target), whole, atol=1e-14)


@pytest.mark.parametrize(("source", "target"), ROWS, ids=NAMES)
def test_the_gradient_is_the_move_between_the_duals(source: AxisState, target: AxisState) -> None:
    """<moved dx, y> = <dx, moved back y>, each in the pairing of its state."""
    random = np.random.default_rng(2)
    glyph, attrs = move("N", source, target)
    op = ops.find(glyph)
    assert op
    assert op.pullback
    back = op.pullback(attrs)["x"]
    assert isinstance(back, Term)
    before, after = dual(source), dual(target)
    assert before
    assert after
    assert (back.attrs["source"], back.attrs["target"]) == (after, before)
    dx = split(random.standard_normal((6, 12)), source, 3, random)
    dy = split(random.standard_normal((6, 12)), after, 3, random)
    there, here = moved_on(glyph, attrs, dx), moved_on(back.op, back.attrs, dy)
    assert paired(there, dy, target) == pytest.approx(paired(dx, here, source), abs=1e-12)


def paired(primal: list[Array], cotangent: list[Array], state: AxisState) -> float:
    """The derivative that a cotangent makes of a change: of I one copy counts."""
    products = [float((x * y).sum()) for x, y in zip(primal, cotangent, strict=True)]
    return products[0] if state == INVARIANT else sum(products)


def test_a_sum_for_a_cast_would_be_found() -> None:
    """The transpose that autograd of torch gives to AR is wrong here: it counts N times."""
    random = np.random.default_rng(3)
    right_move = move("N", PARTIAL, INVARIANT)
    wrong_move = move("N", PARTIAL, REPLICATED)
    dx = split(random.standard_normal((6, 12)), PARTIAL, 3, random)
    dy = split(random.standard_normal((6, 12)), INVARIANT, 3, random)
    right = paired(moved_on(*right_move, dx), dy, INVARIANT)
    found = paired(dx, moved_on(*wrong_move, dy), PARTIAL)
    assert found == pytest.approx(3 * right)


def test_the_example_of_the_document_is_complete() -> None:
    """Its record makes a primitive, and its kind of the same name is simulated as it says."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    record, kind = dict[str, Any](), dict[str, Any](vars(kinds))
    exec(blocks[0], record)
    exec(blocks[1], kind)
    collective = record["COLLECTIVE"]
    x = operand("x", SHAPE)
    assert collective.local(x, "N", INVARIANT, INVARIANT).prim == collective.name
    of_ranks = kind["FROM_FIRST_RANK"]
    assert of_ranks.name == collective.name
    found = of_ranks.simulate([np.array(float(rank)) for rank in range(3)])
    assert [float(x) for x in found] == [0.0, 0.0, 0.0]
