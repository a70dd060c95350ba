"""Sizes that do not divide are refused by a module as `xg check --set` refuses them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from tests.codegen.emitted.test_ranges import arrays_of

import xg
from xg.driver import BACKENDS
from xg_runtime import ranks
from xg_runtime.errors import RankError

FILE = """\
dim B, D = 32, D_b = D/4

block Bottle(x [B, D]) -> y [B, D] {
    param W_d [D, D_b], b_d [D_b] = zeros, W_u [D_b, D]

    x -> LN -> •<=W_d -> ⊕<-BC(b_d) -> SiLU -> •<=W_u -> ⊕<-x : y
}

plan TP of Bottle {
    W_d [D, D_b/N_T]
    b_d [D_b/N_T]
    W_u [D_b/N_T, D]
}
mesh N_T = 2
"""
SAID = "D_b = D/4 = 30/4 is not a whole number"


@pytest.mark.parametrize("backend", BACKENDS)
def test_init_and_forward_refuse_a_part_that_is_not_whole(backend: str) -> None:
    module, array = xg.compile(source=FILE).load(backend), arrays_of(backend)
    assert tuple(module.init(D=28)["W_d"].shape) == (28, 7)
    with pytest.raises(ValueError, match=re.escape(SAID)):
        module.init(D=30)
    shapes = {"W_d": (30, 7), "b_d": (7,), "W_u": (7, 30)}
    params = {name: array(np.ones(shape).tolist()) for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=re.escape(SAID)):
        module.forward(params, {"x": array(np.ones((2, 30)).tolist())})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_has_the_size_that_the_file_defines(backend: str) -> None:
    module, array = xg.compile(source=FILE).load(backend), arrays_of(backend)
    shapes = {"W_d": (32, 9), "b_d": (9,), "W_u": (9, 32)}
    params = {name: array(np.ones(shape).tolist()) for name, shape in shapes.items()}
    said = re.escape("W_d should have shape [32, 8], not [32, 9]")
    with pytest.raises(ValueError, match=said):
        module.forward(params, {"x": array(np.ones((2, 32)).tolist())})


def test_an_input_that_does_not_fit_is_said_first() -> None:
    module = xg.compile(source=FILE).load("numpy")
    with pytest.raises(ValueError, match=r"x \[2, 31\] does not fit the parameters"):
        module.forward(module.init(), {"x": np.ones((2, 31))})


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_heads_of_attention_are_whole(backend: str) -> None:
    module = xg.compile("mha").load(backend)
    with pytest.raises(ValueError, match=re.escape("D_h = D/N_H = 42/4 is not a whole number")):
        module.init(D=42)


def test_ranks_have_whole_parts() -> None:
    program = xg.compile(source=FILE, plan="TP")
    assert "if D % (4 * N_T):" in program.source("numpy")
    module = program.load("numpy")
    with pytest.raises(RankError) as caught:
        ranks.simulate({"N_T": 2}, lambda: module.init(D=36))
    assert str(caught.value) == "rank 0: D_b/N_T = 36/8 is not a whole number"
    assert (caught.value.exit_code, type(caught.value.__cause__)) == (1, ValueError)


def test_what_goes_wrong_on_a_rank_by_itself_is_still_a_bug() -> None:
    def divide() -> float:
        return float("one")

    with pytest.raises(RankError, match="internal error: ValueError") as caught:
        ranks.simulate({"N_T": 2}, divide)
    assert caught.value.exit_code == 3


def test_a_model_refuses_an_input_of_another_size() -> None:
    model = xg.compile("convnet").load("torch").Model()
    given: dict[str, Any] = {"X": torch.ones(2, 9, 12, 3), "t": torch.zeros(2).long()}
    with pytest.raises(ValueError, match=re.escape("H/2 = 9/2 is not a whole number")):
        model(**given)


def test_what_follows_is_said_once() -> None:
    """Rotations halve a head: then heads are whole, and all keys of some heads together."""
    text = xg.compile("llama").source("numpy")
    init = text[text.index("def init(") : text.index("def forward(")]
    assert init.count(" % ") == 1
    assert "if D % (2 * N_H):" in init


def test_numbers_that_a_file_settles_are_not_checked() -> None:
    text = FILE.replace("x [B, D]", "x [B, 32]").replace("y [B, D]", "y [B, 32]")
    text = (
        text.replace("[D, D_b]", "[32, 8]").replace("[D_b, D]", "[8, 32]").replace("[D_b]", "[8]")
    )
    module = xg.compile(source=text.partition("plan")[0]).source("numpy")
    assert "is not a whole number" not in module
