"""Sizes to verify a parallel program at: every rank gets an equal part, and more than nothing."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest

from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.passes.differentiate import differentiate
from xg.passes.rewrites import eliminate_dead
from xg.sharding.apply_plan import placed_values, with_mesh
from xg.verify.proof_sizes import verification_sizes

MODEL = read_project(Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg")
LARGE = {"B": 12, "S": 24, "D": 96, "V": 48, "N_H": 12}  # what the file's own sizes are to fit


@pytest.mark.parametrize(("plan", "mesh"), [("DP_TP", (3, 2)), ("FSDP_TP", (2, 2)), ("SP", (2, 4))])
def test_every_cut_size_is_divisible(plan: str, mesh: tuple[int, int]) -> None:
    ranks = dict(zip(("N_D", "N_T"), mesh, strict=True))
    typed = with_mesh(type_project(MODEL, "LM", {**LARGE, **ranks}, plan))
    sizes = verification_sizes(differentiate(eliminate_dead(typed)), {})
    known = typed.main.sizes.bind(sizes)
    found = [(one, cut) for one in placed_values(typed) for cut in one.planned.cuts]
    assert found
    for one, (whole, axes) in found:
        length = whole.substitute(one.symbols).evaluate(known)
        parts = prod(typed.mesh[axis] for axis in axes)
        assert length % parts == 0
        assert length > parts
