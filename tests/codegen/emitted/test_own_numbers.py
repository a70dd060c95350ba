"""Dims of a block's own that have a number in the file, in the pieces of a torch `Model`."""

from __future__ import annotations

import pytest
import torch

import xg
from xg.ir.verify import verify
from xg.passes.pipelines import BLOCKS, Pass, run
from xg_kernels.pipelines import FUSED_BLOCKS

SQUASHED = "block H(X [B, D]) -> Y [B, D] {\n    X -> tanh : Y\n}\n"
CELL = """\
block Cell(x [B, E]) -> y [B, E] {
    dim E
    state h [B, E]
    x -> ⊕<-h -> tanh : y
    next h = y
}
"""
DIMS = "dim B, D = 5\n"

# An entry block that declares k or M, of which the file says a number, for itself.
ENTRIES = {
    "one piece": """\
block F(X [B, D], Z [B, k]) -> Y [B, T], W [B, k] {
    dim k = 3, T = D - k
    X -> slice[D](0, D - k) : Y
    Z -> scale(k)           : W
}
""",
    "pieces between calls": f"""{SQUASHED}
block F(X [B, D], Z [B, k]) -> Y [B, T], W [B, k] {{
    dim k = 3, T = D - k
    X -> H -> slice[D](0, D - k) : U [B, T]
    U -> tanh -> H as h          : Y
    Z -> scale(k)                : W
}}
""",
    "a loop": f"""{CELL}
block F(X [B, M, D], Z [B, k]) -> Y [B, T, D], W [B, k] {{
    dim M = 7, k = 3, T = M - k
    X -> slice[M](0, M - k) -> Cell over T : Y [B, T, D]
    Z -> scale(k)                          : W
}}
""",
}


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("pipeline", [BLOCKS, FUSED_BLOCKS])
def test_pieces_of_an_entry_have_its_sizes(name: str, pipeline: tuple[Pass, ...]) -> None:
    program = xg.compile(source=DIMS + ENTRIES[name])
    verify(run(pipeline, program.graphs).result)


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_reads_the_number_where_the_functions_do(name: str, kernels: bool) -> None:
    """Z has four columns, where the file says three."""
    module = xg.compile(source=DIMS + ENTRIES[name]).load("torch", kernels=kernels)
    shape = (2, 7, 5) if name == "a loop" else (2, 5)
    X, Z = torch.randn(shape), torch.ones(2, 4)
    expected = module.forward({}, {"X": X, "Z": Z})[0]
    found = module.Model()(X, Z)
    assert torch.equal(found["W"], torch.full((2, 4), 4.0))
    for key in ("Y", "W"):
        assert torch.equal(found[key], expected[key])
