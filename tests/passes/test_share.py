"""Numbers of sizes alone: made once for a whole step with kernels, with the same results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from library import shipped
from passes.decode_step.stepping import LENGTH, generated, stepping

import xg
from xg.ir.graph import Apply, IRProgram
from xg_kernels.pipelines import SHARE
from xg_kernels.share import share

LATENTS = {"D_c": 6, "D_q": 8, "D_n": 4, "D_r": 4, "D_v": 4}
EXPERTS = {"N_dense": 1, "N_E": 4, "D_e": 6, "k": 2}
DEEPSEEK = {"V": 13, "D": 12, "N_L": 3, "N_H": 2, "D_ff": 10, **LATENTS, **EXPERTS}
GEMMA = {"V": 13, "D": 12, "N_L": 2, "N_H": 4, "N_KV": 2, "D_h": 4, "D_ff": 10, "S_w": 3}
MODELS: Mapping[str, Mapping[str, int]] = {"deepseek2": DEEPSEEK, "gemma2": GEMMA}


def made(program: IRProgram) -> list[str]:
    """The blocks that make such numbers, once for each list of them."""
    return [
        graph.block
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply) and step.op.name == "tables"
    ]


@pytest.mark.parametrize("name", ["llama", "mixtral", *MODELS])
def test_all_layers_of_a_decoder_are_given_one_table(name: str) -> None:
    step = xg.compile(shipped(name)).step()
    assert made(step.graphs) == []
    assert made(step.fused) == [step.graphs.main.block]
    assert SHARE.name in dict(step.fused_history.stages)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_give_what_the_whole_text_gives(name: str, backend: str) -> None:
    """Of rows of layers in a row, and of windows; `decode_step` tries the others."""
    one = stepping(xg.compile(shipped(name), sizes=MODELS[name]))
    for pieces in ((LENGTH,), (3, 1, 3)):
        found = generated(one, pieces, backend, kernels=True)
        assert np.abs(found - one.expected()).max() < 1e-12


def test_a_program_without_such_numbers_is_left_as_it_is() -> None:
    step = xg.compile(shipped("gpt2")).step()
    assert share(step.graphs).graphs == step.graphs.graphs


def test_blocks_of_other_sizes_have_tables_of_their_own() -> None:
    source = """\
dim B, S, D = 8, E = 4

block Turn(X [B, S, D]) -> Y [B, S, D] {
    X -> RoPE : Y
}

block Net(X [B, S, D], U [B, S, E]) -> Y [B, S, D], V [B, S, E] {
    X -> Turn as a -> Turn as b : Y
    U -> Turn(D=E) as c         : V
}
"""
    program = share(xg.compile(source=source).graphs)
    assert made(program) == ["Net", "Net"]
    steps = program.main.steps
    widths = [str(program.main.types[step.outputs[0]].shape[-1]) for step in steps[:2]]
    assert widths == ["D/2", "E/2"]
    assert [len(step.inputs) for step in steps[2:]] == [3, 3, 3]


def test_a_number_of_numbers_is_left_where_it_is() -> None:
    """Of no array, code of Python computes it, which has no type to be given."""
    source = """\
dim S, D
op Shift(x [.., D]) = x + tanh(sin(0.5))

block Net(X [S, D]) -> Y [S, D] {
    X -> Shift -> Shift : Y
}
"""
    program = xg.compile(source=source)
    step = program.step().graphs
    assert share(step).graphs == step.graphs
    x = np.array([[0.25, -1.5]])
    for backend in ("numpy", "torch"):
        module = program.step_on_arrays(backend, kernels=True)
        outputs, _ = module.step({}, module.empty_cache({}, D=2), {"X": x})
        np.testing.assert_allclose(outputs["Y"], x + 2 * np.tanh(np.sin(0.5)), rtol=1e-15)
