"""Numbers of parameters alone: computed once where they are prepared, with the same results."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from codegen.kernels.test_calls import calls
from library import shipped
from passes.decode_step.stepping import LENGTH, Stepping, generated, stepping, written

import xg
from xg.driver import Program
from xg.ir.graph import Apply, IRProgram
from xg_kernels.pipelines import PREPARE
from xg_kernels.share import prepare

RWKV = {"V": 13, "D": 6, "D_a": 8, "N_L": 2}
GEMMA = {"V": 13, "D": 12, "N_L": 2, "N_H": 4, "N_KV": 2, "D_h": 4, "D_ff": 10, "S_w": 3}
RATES = """\
dim B, S, D = 4
op Fade(x [.., D]; λ, μ [D]) = x * exp(λ) + exp(λ) * tanh(μ)

block Layer(X [B, S, D]) -> Y [B, S, D] {
    param λ, μ, γ, λ_prepared [D] = ones, W [D, D]

    γ -> tanh -> scale(-1)                                                   : A
    X -> •<=W -> •<=T(W) -> Fade(λ, μ) -> ⊙<-BC(A) -> ⊙<-BC(λ_prepared) : Y
}

block Net(X [B, S, D]) -> Y [B, S, D] {
    param λ [D] = ones

    X -> 2 × Layer as layers -> Layer as last -> ⊙<-BC(λ) -> last : Y
}
"""

MODELS: Mapping[str, Callable[[], Program]] = {
    "rwkv": lambda: xg.compile(shipped("rwkv"), sizes=RWKV),
    "gemma2": lambda: xg.compile(shipped("gemma2"), sizes=GEMMA),
    "rates": lambda: written(RATES),
}
NUMBERS: Mapping[str, int] = {"rwkv": 12, "gemma2": 9, "rates": 9}


def made(program: IRProgram) -> list[str]:
    """The names of such numbers."""
    return [
        str(step.outputs[0].name)
        for graph in program.graphs.values()
        for step in graph.steps
        if isinstance(step, Apply) and step.op.glyph == "prepared"
    ]


def prepared(one: Stepping, backend: str) -> Stepping:
    """The same with the parameters that its module has prepared."""
    own = torch.as_tensor if backend == "torch" else np.asarray
    module = one.step.load(backend, kernels=True)
    ready = module.prepared({name: own(array) for name, array in one.params.items()})
    return replace(one, params={name: np.asarray(array) for name, array in ready.items()})


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_give_what_the_whole_text_gives(name: str, backend: str) -> None:
    """With these numbers and without: several texts at once, token by token and in pieces."""
    one = stepping(MODELS[name]())
    ready = prepared(one, backend)
    assert len(ready.params) - len(one.params) == NUMBERS[name]
    for each in (one, ready):
        for pieces in ((LENGTH,), (1,) * LENGTH, (3, 1, 3)):
            found = generated(each, pieces, backend, kernels=True)
            assert np.abs(found - one.expected()).max() < 1e-12


def test_each_is_made_once_and_has_a_name_of_its_own() -> None:
    step = written(RATES).step()
    assert made(step.graphs) == []
    names = {"lambda_prepared_2", "lambda_prepared_3", "gamma_prepared"}
    assert set(made(step.fused)) == names
    blocks = [graph for graph in step.fused.graphs.values() if graph.block == "Layer"]
    assert len(made(step.fused)) == len(names) * len(blocks)
    assert PREPARE.name in dict(step.fused_history.stages)
    steps = [each for graph in blocks for each in graph.steps if isinstance(each, Apply)]
    assert "tanh" not in [each.op.name for each in steps]


def test_who_has_prepared_calls_fewer_operations() -> None:
    one = stepping(MODELS["rwkv"]())
    module = one.step.load("torch", kernels=True)
    params = {name: torch.as_tensor(array) for name, array in one.params.items()}
    ready, ids = module.prepared(params), torch.tensor([[1]])
    cache = module.empty_cache(params)
    counts = [
        len(calls(lambda given=given: module.step(given, cache, {"ids": ids})))
        for given in (params, ready)
    ]
    assert counts[0] - counts[1] >= NUMBERS["rwkv"]


def test_other_names_are_still_refused() -> None:
    one = stepping(MODELS["rwkv"]())
    module = one.step.load("torch", kernels=True)
    ready = module.prepared({name: torch.as_tensor(array) for name, array in one.params.items()})
    cache, ids = module.empty_cache(ready), torch.tensor([[1]])
    for name in ("mu_prepared", "layers.2.time.mu_k_prepared"):
        with pytest.raises(ValueError, match=f"there is no {name}"):
            module.step({**ready, name: ids}, cache, {"ids": ids})


def test_a_program_without_such_numbers_is_left_as_it_is() -> None:
    step = xg.compile(shipped("gpt2")).step()
    assert prepare(step.graphs).graphs == step.graphs.graphs
    assert "_numbers" not in step.source("torch", kernels=True)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_prepared_parameters_are_checked_once(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are prepared; a copy of them is checked in the step, as others are."""
    module = stepping(MODELS["rwkv"]()).step.load(backend, kernels=True)
    one = prepared(stepping(MODELS["rwkv"]()), backend)
    own = torch.as_tensor if backend == "torch" else np.asarray
    params = {name: own(array) for name, array in one.params.items()}
    wrong = {"gamma": params["layers.0.time.W_k"]}
    for given in ({**params, **wrong}, {n: p for n, p in params.items() if n != "gamma"}):
        with pytest.raises(ValueError, match="gamma"):
            module.prepared(given)
    with pytest.raises(ValueError, match="there is no Gamma"):
        module.prepared({**params, "Gamma": params["gamma"]})
    ready, ids = module.prepared(params), {"ids": own([[1]])}
    cache, tables = module.empty_cache(ready), list[str]()
    table = module._param_table

    def counted(**sizes: int) -> object:
        tables.append("made")
        return table(**sizes)

    monkeypatch.setattr(module, "_param_table", counted)
    expected, _ = module.step(dict(ready), cache, ids)
    assert tables == ["made"]
    found, _ = module.step(ready, cache, ids)
    assert tables == ["made"]
    assert np.array_equal(np.asarray(found["Z"]), np.asarray(expected["Z"]))
    with pytest.raises(ValueError, match="gamma should have shape"):
        module.step({**ready, **wrong}, cache, ids)


def test_a_step_whose_input_has_a_size_of_parameters_checks_each_time() -> None:
    source = written(RATES).step().source("numpy", kernels=True)
    assert "class Prepared" not in source
    assert "    ready = dict(params)" in source


@pytest.mark.parametrize("decay", ["", " -> Fade(λ)"])
def test_a_step_that_reads_some_parameters_takes_all(decay: str) -> None:
    text = f"""\
dim B, S, V, D = 4
op Fade(x [.., D]; λ [D]) = x * exp(λ)

block Net(ids [B, S] in V) -> Y, U [B, S, D] {{
    param E [V, D], λ [D] = ones, W [D, D]

    ids -> Emb(E){decay} -> scale(2) : Y
    Y -> Fade(λ) -> •<=W       : U
}}
"""
    module = written(text).step("Y").load("torch", kernels=True)
    params = {
        name: torch.full(shape, 0.5, dtype=torch.float64)
        for name, shape in {"E": (3, 4), "lambda": (4,), "W": (4, 4)}.items()
    }
    ids = {"ids": torch.tensor([[1, 2]])}
    expected = np.exp(0.5) if decay else 1.0
    for given in (params, module.prepared(params), dict(module.prepared(params))):
        outputs, _ = module.step(given, module.empty_cache(given), ids)
        assert np.allclose(outputs["Y"], expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="E is missing"):
        module.prepared({"W": params["W"], "lambda": params["lambda"]})
