"""Blocks that are written as one rank sees them: on their mesh they are the block of one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.frontend.project import read_project
from xg.verify.plan_proof import prove_ranks

NODE_I = read_project(Path(__file__).parents[2] / "diagrams" / "notation" / "node_i.xg")


@pytest.mark.parametrize("block", [block.name.name for block in NODE_I.main.blocks])
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_shipped_block_is_that_of_one_device(block: str, ranks: int) -> None:
    proof = prove_ranks(NODE_I, block, None, {"N_T": ranks}, seed=1)
    assert proof.passed
    assert proof.floats
    assert proof.exact
    assert {each.verdict for each in proof.floats.controls} == {"needed"}
