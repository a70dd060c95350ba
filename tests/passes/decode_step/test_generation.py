"""Cached and uncached generation agree token for token, greedy and sampled, in every model."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from backends import writing
from passes.decode_step.stepping import LIBRARY, LLAMA, TRANSFORMER, written
from tier import some

import xg
from xg.driver import Program
from xg.verify.reference.interpret import initial
from xg_generate.runs import Writer, longest, token_model
from xg_runtime.errors import InputError
from xg_runtime.generate import Sampling
from xg_runtime.tokens import ByteVocabulary

BYTES = {"V": 256, "S_max": 40}
PROMPT = np.frombuffer(b"The cat", np.uint8)
WAYS = {
    "greedy": Sampling(temperature=0),
    "sampled": Sampling(temperature=1.3, seed=5),
    "few": Sampling(temperature=0.9, top_k=20, top_p=0.8, seed=6),
}


def writer(program: Program, backend: str = "numpy", window: int | None = None) -> Writer:
    """A model of bytes with random parameters."""
    return Writer(program, initial(program.graphs, 1), ByteVocabulary(), window, backend)


def lm(**options: str) -> Program:
    return xg.compile(
        LIBRARY / "models" / "transformer.xg", sizes=TRANSFORMER | BYTES, options=options
    )


MODELS = {
    "learned": lambda: lm(),
    "sinusoidal": lambda: lm(pos="sinusoidal", norm="post", head="own"),
    "rope": lambda: lm(pos="rope", ffn="GatedMLP"),
    "llama": lambda: xg.compile(LIBRARY / "models" / "llama.xg", sizes=LLAMA | {"V": 256}),
}


@cache
def reader(name: str) -> Writer:
    """One of the models, with a cache."""
    return writer(MODELS[name]())


def tokens(model: Writer, how: Sampling, count: int = 30) -> list[int]:
    return list(model.tokens(PROMPT, count, how))


# Daily each model in a way, and each way with one model.
EVERY = [(name, way) for name in MODELS for way in WAYS]
TRIED = some(EVERY, lambda each: each if each[0] == "learned" else each[0])


@pytest.mark.parametrize(("name", "way"), TRIED)
def test_both_readers_give_the_same_tokens(name: str, way: str) -> None:
    cached, how = reader(name), WAYS[way]
    found = tokens(cached, how)
    assert len(found) == 30
    assert len(set(found)) > 2, "a model that says one thing over and over proves little"
    assert tokens(replace(cached, cached=False), how) == found
    for other in writing("step")[1:]:
        assert tokens(replace(cached, backend=other), how) == found


def test_a_text_may_be_longer_than_the_window() -> None:
    cached = writer(lm(), window=11)
    found = tokens(cached, WAYS["sampled"])
    assert tokens(replace(cached, cached=False), WAYS["sampled"]) == found
    assert tokens(replace(cached, window=None), WAYS["sampled"]) != found


def test_a_text_may_be_longer_than_the_table() -> None:
    cached = reader("learned")
    assert longest(cached.program.step()) == 40
    found = tokens(cached, WAYS["sampled"], 50)
    assert len(found) == 50
    assert tokens(replace(cached, cached=False), WAYS["sampled"], 50) == found


def test_without_a_table_there_is_no_end() -> None:
    assert longest(reader("llama").program.step()) is None


def test_a_forgetful_cache_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from xg_runtime.generate import Stepping

    cached = reader("learned")
    found = tokens(cached, WAYS["sampled"])
    read = Stepping.read

    def forget(self: Stepping, new: np.ndarray[tuple[int], np.dtype[np.int64]]) -> object:
        logits = read(self, new)
        self.cache["layers.1.attn.V"] = self.cache["layers.1.attn.V"] * 0
        return logits

    monkeypatch.setattr(Stepping, "read", forget)
    assert tokens(cached, WAYS["sampled"]) != found


def test_what_writes_no_text_is_refused() -> None:
    translator = xg.compile(LIBRARY / "models" / "encoder_decoder.xg")
    with pytest.raises(InputError, match=r"takes y \[B, S_d\] in V_d, M \[B, S_e, D\]"):
        token_model(translator, translator.step(), None, 10)
    layer = written(
        "dim B, S, D = 4\nblock F(X [B, S, D]) -> Y [B, S, D] {\n    X -> tanh : Y\n}\n"
    )
    with pytest.raises(
        InputError, match=r"cannot continue a text: it must take one input of ids \[B, S\]"
    ):
        token_model(layer, layer.step(), None, 10)
    with pytest.raises(InputError, match="LM knows 256 tokens, but the tokenizer has 300"):
        token_model(lm(), lm().step(), None, 300)
