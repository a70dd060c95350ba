"""Published decoders go on with a text as transformers does, token for token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any, Final

import numpy as np
import pytest
from models.families import FURTHER, LIKE_LLAMA, Family, V, in_double, relative
from models.more_families import CONFIGURED, EVERY
from models.witness import Witness, quietly
from tier import THOROUGH, some

from xg_generate.runs import Writer
from xg_runtime.generate import Sampling, StepModule

PROMPT = np.array([3, 1, 4, 1])
Made = Callable[[str, Family], Witness]


WITNESSES = {**EVERY, "Qwen3, YaRN": relative("Qwen3", LIKE_LLAMA["Qwen3"][1])}


def kind_of(name: str) -> str:
    """The model without the number of its configuration, or what the configuration is called."""
    return name.partition(",")[0].rpartition("-")[0] or name.partition(",")[0]


class Numbers:
    """Tokens that are written as their numbers."""

    size = V

    def encode(self, text: bytes) -> Any:  # noqa: ANN401 - an array
        return np.array([int(word) for word in text.split()])

    def decode(self, ids: Any) -> str:  # noqa: ANN401 - an array
        return " ".join(map(str, ids))


GENERATED: Final = (
    *("gpt2", "llama", "llama, tied", "mixtral", *LIKE_LLAMA, "Qwen3, YaRN"),
    *("mamba", "mamba, all biases, own head", "gemma2", "deepseek2", "mamba2", "rwkv"),
)


@pytest.mark.parametrize("name", GENERATED)
def test_the_same_tokens_as_transformers(name: str, witness_of: Made) -> None:
    """As by default, and in one of three other ways by turns; where thorough in all."""
    torch: Any = import_module("torch")
    witness = witness_of(name, WITNESSES[name])
    with quietly(), in_double():
        model = witness.family.model().from_pretrained(
            witness.folder,
            attn_implementation="eager",
            experts_implementation="eager",
            dtype=torch.float64,
        )
        ids = torch.from_numpy(PROMPT[None])
        said = model.generate(
            ids, max_new_tokens=7, do_sample=False, pad_token_id=0, eos_token_id=None
        )
    wanted = said[0, len(PROMPT) :].tolist()
    writer = Writer(witness.held.program, witness.held.params, Numbers())
    others = ({"backend": "torch"}, {"cached": False}, {"kernels": True})
    turn = GENERATED.index(name) % len(others)
    tried = others if THOROUGH else others[turn : turn + 1]
    for each in (writer, *(replace(writer, **other) for other in tried)):
        assert list(each.tokens(PROMPT, 7, Sampling(temperature=0))) == wanted


DECODERS: Final = ("gpt2", "llama", "mixtral", "gemma2", "deepseek", "mamba", "rwkv", *LIKE_LLAMA)
RELATIVES: Final = {
    f"{name}-{place}": relative(name, config)
    for name, configs in LIKE_LLAMA.items()
    for place, config in enumerate(configs[1:], 1)
}
CONFIGURATIONS: Final = {
    name: family
    for name, family in {**EVERY, **CONFIGURED, **FURTHER, **RELATIVES}.items()
    if name.startswith(DECODERS)
}


@pytest.mark.parametrize("name", some(CONFIGURATIONS, kind_of))
def test_steps_say_what_transformers_says_of_the_whole(name: str, witness_of: Made) -> None:
    """Five positions in parts of two, one and two, in each way; where not thorough in one."""
    witness = witness_of(name, CONFIGURATIONS[name])
    program, params = witness.held.program, witness.held.params
    ways = list(product(("numpy", "torch"), (False, True)))
    turn = list(CONFIGURATIONS).index(name) % len(ways)
    for backend, kernels in ways if THOROUGH else ways[turn : turn + 1]:
        module = program.step_on_arrays(backend, kernels=kernels)
        cache, said = module.empty_cache(params, B=2), list[Any]()
        for start, stop in ((0, 2), (2, 3), (3, 5)):
            given = {"ids": witness.inputs["ids"][:, start:stop]}
            out, cache = module.step(params, cache, given)
            said.append(out["Z"])
        off = np.abs(np.concatenate(said, 1) - witness.logits).max()
        assert off < 1e-8, (backend, kernels, off)


@pytest.mark.parametrize(
    ("name", "read", "parts"),
    [
        ("t5", ("y", "keep_y"), ((0, 4), (4, 5), (5, 11))),
        ("whisper", ("y",), ((0, 2), (2, 3), (3, 5))),
    ],
)
def test_a_decoder_beside_an_encoder_goes_step_by_step(
    name: str, read: tuple[str, ...], parts: tuple[tuple[int, int], ...], witness_of: Made
) -> None:
    """Also where positions are relative, as those of T5."""
    witness = witness_of(name, EVERY[name])
    program, params = witness.held.program, witness.held.params
    once = program.prologue()
    assert once is not None
    given, _ = once.on_arrays().forward(params, {n: witness.inputs[n] for n in once.inputs})
    module: StepModule = program.step_on_arrays()
    taken = {**given, **witness.inputs}
    cache = program.step().load().empty_cache(params, B=2)
    outputs: list[Any] = []
    for start, stop in parts:
        cut = {n: taken[n][:, start:stop] for n in read}
        rest = {n: taken[n] for n in program.step().inputs if n not in cut}
        out, cache = module.step(params, cache, {**rest, **cut})
        outputs.append(out["Z"])
    assert np.abs(np.concatenate(outputs, 1) - witness.logits).max() < 1e-8
