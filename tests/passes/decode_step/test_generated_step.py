"""The generated step of both backends gives what the whole text gives, and refuses what it must."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from backends import writing
from library import shipped
from passes.decode_step.stepping import (
    BATCH,
    LENGTH,
    LIBRARY,
    Array,
    Stepping,
    generated,
    llama,
    stepping,
    transformer,
    written,
)
from tier import some

import xg

EXACT = 1e-12


TRANSLATOR = {"V_e": 13, "V_d": 11, "N": 2, "N_H": 3, "D": 12, "D_ff": 14, "S_e": 5}
HERE = Path(__file__).parent
MODELS: Mapping[str, Callable[[], Stepping]] = {
    "learned": lambda: stepping(transformer()),
    "sinusoidal": lambda: stepping(transformer(pos="sinusoidal", norm="post", head="own")),
    "rope": lambda: stepping(transformer(pos="rope", ffn="GatedMLP")),
    "llama": lambda: stepping(llama()),
    "mistral": lambda: stepping(llama(window="near")),
    "odd": lambda: stepping(xg.compile(HERE / "odd.xg"), output="Z"),
    "recurrent": lambda: stepping(xg.compile(HERE / "recurrent.xg")),
    "gru": lambda: stepping(xg.compile(shipped("gru"))),
    "encoder_decoder": lambda: stepping(
        xg.compile(LIBRARY / "models" / "encoder_decoder.xg", "Translator", sizes=TRANSLATOR),
        axis="S_d",
    ),
}


@cache
def model(name: str) -> Stepping:
    """One of the models with its step and its arrays."""
    return MODELS[name]()


@pytest.mark.parametrize("backend", writing("step"))
@pytest.mark.parametrize("name", MODELS)
def test_pieces_agree_with_the_whole(name: str, backend: str) -> None:
    one = model(name)
    for pieces in ((LENGTH,), (1,) * LENGTH, (3, 1, 3)):
        assert np.abs(generated(one, pieces, backend) - one.expected()).max() < EXACT


# Daily each model with the kernels of one backend, by turns.
STEPPING = writing("step")
TURNED = [
    (name, STEPPING[(place + turn) % len(STEPPING)])
    for place, name in enumerate(MODELS)
    for turn in range(len(STEPPING))
]


KERNELS = some(TURNED, lambda each: each[0])


@pytest.mark.parametrize(("name", "backend"), KERNELS)
def test_pieces_agree_with_kernels_too(name: str, backend: str) -> None:
    one = model(name)
    for pieces in ((LENGTH,), (3, 1, 3)):
        found = generated(one, pieces, backend, kernels=True)
        assert np.abs(found - one.expected()).max() < EXACT


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("window", ["all", "near"])
def test_a_step_does_not_repeat_shared_heads(window: str, backend: str) -> None:
    step = llama(window=window).step()
    repeated = "N_KV, N_H // N_KV"
    assert repeated in step.source(backend)
    assert repeated not in step.source(backend, kernels=True)


def test_a_text_longer_than_the_table_is_refused() -> None:
    one = model("learned")
    module = one.step.load()
    cache = module.empty_cache(one.params, B=BATCH)
    _, cache = module.step(one.params, cache, one.cut(0, LENGTH))
    with pytest.raises(ValueError, match="S \\+ T = 8 is more than S_max = 7: the table must"):
        module.step(one.params, cache, one.cut(0, 1))


def test_a_cache_of_something_else_is_refused() -> None:
    one = model("llama")
    module = one.step.load()
    cache = module.empty_cache(one.params, B=BATCH)
    longer = {**cache, "layers.1.attn.V": np.zeros((BATCH, 2, 1, 4))}
    del cache["layers.0.attn.K"]
    with pytest.raises(ValueError, match=r"layers\.0\.attn\.K \[2, 2, 0, 4\] is missing"):
        module.step(one.params, cache, one.cut(0, 1))
    with pytest.raises(ValueError, match=r"layers\.1\.attn\.V should have shape"):
        module.step(one.params, longer, one.cut(0, 1))


@pytest.mark.parametrize("kernels", [False, True])
def test_a_step_leaves_the_cache_that_it_was_given(kernels: bool) -> None:
    one = model("llama")
    module = one.step.load(kernels=kernels)
    empty = module.empty_cache(one.params, B=BATCH)
    _, cache = module.step(one.params, empty, one.cut(0, 3))
    assert {array.shape[1] for name, array in empty.items() if name == "ids"} == {0}
    first, _ = module.step(one.params, cache, one.cut(3, 5))
    again, _ = module.step(one.params, cache, one.cut(3, 5))
    assert np.array_equal(first["Z"], again["Z"])


def test_prepared_parameters_are_the_same_ones_in_another_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large matrices by columns, of experts too, but not tables of which rows are looked up."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    sizes = {"V": 400, "D": 400, "D_ff": 400, "N_L": 1, "N_H": 2, "N_KV": 1, "N_E": 3}
    program = xg.compile(LIBRARY / "models" / "mixtral.xg", sizes=sizes)
    module = program.step().load("torch", kernels=True)
    params = program.load("torch").init(0)
    ready = module.prepared(params)
    for name, tensor in params.items():
        assert torch.equal(ready[name], tensor)
    turned = {name for name, tensor in ready.items() if not tensor.is_contiguous()}
    matrices = {"W_lm", *(f"layers.0.attn.W_{each}" for each in ("Q", "O", "K", "V"))}
    matrices |= {f"layers.0.moe.W_{each}" for each in ("gate", "up", "down")}
    assert turned == matrices
    found: list[torch.Tensor] = []
    for given in (params, ready):
        cache = module.empty_cache(given)
        for ids in ([[1, 5, 7]], [[2]], [[3]]):
            outputs, cache = module.step(given, cache, {"ids": torch.tensor(ids)})
        found.append(outputs["Z"])
    assert torch.allclose(found[0], found[1], rtol=0, atol=1e-5)
    assert not torch.equal(found[0], found[1])  # other products


def test_numpy_has_tall_matrices_by_columns() -> None:
    """A table that is the head, too, is one of them; one whose rows are only looked up is not."""
    sizes = {"V": 700, "D": 320, "N_L": 1, "N_H": 2, "S_max": 640}
    program = xg.compile(LIBRARY / "models" / "gpt2.xg", sizes=sizes)
    module = program.step().load("numpy", kernels=True)
    params = program.load().init(0)
    ready = module.prepared(params)
    assert all(np.array_equal(ready[name], array) for name, array in params.items())
    turned = {name for name, array in ready.items() if not array.flags.c_contiguous}
    assert turned == {"E", "layers.0.W_down"}
    assert all(ready[name].T.flags.c_contiguous for name in turned)
    found: list[Array] = []
    for given in (params, ready):
        cache = module.empty_cache(given)
        for ids in ([[1, 5, 7]], [[2]], [[3]]):
            outputs, cache = module.step(given, cache, {"ids": np.array(ids)})
        found.append(outputs["Z"])
    assert np.allclose(found[0], found[1], rtol=0, atol=1e-5)


def test_a_step_whose_cache_needs_no_size() -> None:
    """All its sizes are numbers but for that of the past."""
    step = written("dim S\nblock F(X [S, 3]) -> Y [S, 3] {\n    X -> tanh : Y\n}\n").step()
    module, array = step.load(), np.arange(6.0).reshape(2, 3)
    outputs, cache = module.step({}, module.empty_cache({}), {"X": array})
    assert np.array_equal(outputs["Y"], np.tanh(array))
    assert [count.shape for count in cache.values()] == [(2, 3)]


SUM = """dim B, S

block Sum(x [B, 3]) -> y [B, 3] {
    state h [B, 3]
    x -> ⊕<-h : y
    next h = y
}

block F(X [B, S, 3]) -> Y [B, S, 3] {
    X -> Sum over S : Y
}
"""


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("backend", writing("step"))
def test_states_take_the_type_of_an_input_if_nothing_else_has_one(backend: str, kind: str) -> None:
    module = written(SUM, "F").step_on_arrays(backend)
    array, cache = np.arange(6, dtype=kind).reshape(1, 2, 3), module.empty_cache({})
    for before in (0, array.sum(1)):
        outputs, cache = module.step({}, cache, {"X": array})
        assert outputs["Y"].dtype == kind
        assert np.array_equal(outputs["Y"], before + array.cumsum(1))


def test_the_table_of_an_empty_cache_is_on_a_line_that_it_fills() -> None:
    long = f"N{22 * 'x'}"
    text = f"""\
dim B, S, D = 6, {long} = 4
block Net(X [B, S, D]) -> Y [B, S, D] {{
    param W_K, W_Q [D, {long}], W_V [D, D]
    X -> •<=W_K : K [B, S, {long}]
    X -> •<=W_V : V [B, S, D]
    X -> •<=W_Q -> •<=T(K) -> SM(1, causal) -> S -> •<=V : Y
}}
"""
    lines = written(text).step().source().splitlines()
    (table,) = (line for line in lines if line.startswith("    table = _cache_table("))
    assert table == f"    table = _cache_table(B=B, T=0, {long}={long}, D=D)"
    assert len(table) == max(map(len, lines)) == 88
