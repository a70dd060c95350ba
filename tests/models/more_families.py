"""Further witnesses: RoBERTa, DistilBERT, Gemma 2 and Whisper, in all that their configs can have.

The first configuration of a family goes through every test, the others through those of agreement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np
from models.families import (
    BATCH,
    FAMILIES,
    LENGTH,
    Arrays,
    Family,
    Tensor,
    V,
    call_masked,
    call_words,
    masked_words,
    words,
)

PAD: Final = 1


def made(kind: str, head: str, config: Mapping[str, Any]) -> Tensor:
    """A model of transformers with this head, and eager where it could be otherwise."""
    transformers: Any = import_module("transformers")
    settings = getattr(transformers, f"{kind}Config")(**config, attn_implementation="eager")
    return getattr(transformers, f"{kind}For{head}")(settings)


def roberta(config: Mapping[str, Any]) -> Tensor:
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 10, "max_position_embeddings": 11, "type_vocab_size": 4,
        "layer_norm_eps": 3e-4, "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": 2,
    }  # fmt: skip
    return made("Roberta", "MaskedLM", {**common, **config})


def distilbert(config: Mapping[str, Any]) -> Tensor:
    common: dict[str, Any] = {
        "vocab_size": V, "dim": 12, "n_layers": 2, "n_heads": 3, "hidden_dim": 10,
        "max_position_embeddings": 11,
    }  # fmt: skip
    return made("DistilBert", "MaskedLM", {**common, **config})


def padded(pad: int, kinds: int) -> Callable[[np.random.Generator], Arrays]:
    """Words with padding behind one text, and amid and before the other."""

    def drawn(rng: np.random.Generator) -> Arrays:
        ids = (pad + rng.integers(1, V, (BATCH, LENGTH))) % V
        keep, w = np.ones((2, BATCH, LENGTH), np.int64)
        keep[0, 3:] = keep[1, 0] = keep[1, 2] = 0
        ids[keep == 0] = pad
        w[1, 1] = 0
        given = {**masked_words(rng), "ids": ids, "keep": keep, "w": w * keep}
        return {**given, "types": rng.integers(0, kinds, (BATCH, LENGTH))}

    return drawn


def unpadded(rng: np.random.Generator) -> Arrays:
    return {**masked_words(rng), "ids": rng.integers(PAD + 1, V, (BATCH, LENGTH))}


def without_types(rng: np.random.Generator) -> Arrays:
    return {name: array for name, array in masked_words(rng).items() if name != "types"}


def call_without_types(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    return model(input_ids=given["ids"], attention_mask=given["keep"]).logits


def robertas(config: Mapping[str, Any]) -> Family:
    inputs = padded(config.get("pad_token_id", PAD), config.get("type_vocab_size", 4))
    return Family("bert", lambda: roberta(config), inputs, call_masked, names="roberta")


def distilberts(config: Mapping[str, Any]) -> Family:
    return Family("distilbert", lambda: distilbert(config), without_types, call_without_types)


def gemma2(config: Mapping[str, Any]) -> Tensor:
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 10, "head_dim": 6, "rms_norm_eps": 3e-4,
        "query_pre_attn_scalar": 5, "sliding_window": 3, "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 2.5, "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
    }  # fmt: skip
    return made("Gemma2", "CausalLM", {**common, **config})


def whisper(config: Mapping[str, Any]) -> Tensor:
    common: dict[str, Any] = {
        "vocab_size": V, "num_mel_bins": 7, "d_model": 12, "encoder_layers": 2,
        "encoder_attention_heads": 3, "encoder_ffn_dim": 10, "decoder_layers": 3,
        "decoder_attention_heads": 4, "decoder_ffn_dim": 14, "max_source_positions": 8,
        "max_target_positions": 11, "pad_token_id": None, "bos_token_id": 0, "eos_token_id": 0,
        "decoder_start_token_id": 1,
    }  # fmt: skip
    return made("Whisper", "ConditionalGeneration", {**common, **config})


def sounds(bins: int, moments: int) -> Callable[[np.random.Generator], Arrays]:
    """Sounds, and texts of which some positions do not count."""

    def drawn(rng: np.random.Generator) -> Arrays:
        y, t = rng.integers(0, V, (2, BATCH, LENGTH))
        w = np.ones((BATCH, LENGTH), np.int64)
        w[0, 3:] = 0
        return {"X": rng.normal(size=(BATCH, bins, 2 * moments)), "y": y, "t": t, "w": w}

    return drawn


def call_sounds(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    return model(input_features=given["X"], decoder_input_ids=given["y"]).logits


def whispers(config: Mapping[str, Any]) -> Family:
    inputs = sounds(config.get("num_mel_bins", 7), config.get("max_source_positions", 8))
    return Family("whisper", lambda: whisper(config), inputs, call_sounds)


def gemmas(config: Mapping[str, Any]) -> Family:
    return Family("gemma2", lambda: gemma2(config), words, call_words)


ROBERTA: Final[list[Mapping[str, Any]]] = [
    {},
    {"pad_token_id": 0, "type_vocab_size": 1},
    {"pad_token_id": 3, "num_hidden_layers": 1, "num_attention_heads": 1},
    {"hidden_size": 20, "num_attention_heads": 5, "intermediate_size": 44, "layer_norm_eps": 1e-12},
    {"max_position_embeddings": 7, "num_attention_heads": 6, "num_hidden_layers": 3},
]
DISTILBERT: Final[list[Mapping[str, Any]]] = [
    {},
    {"sinusoidal_pos_embds": True, "n_layers": 1},
    {"dim": 20, "hidden_dim": 44, "n_heads": 1},
    {"max_position_embeddings": 5, "n_heads": 6},
    {"n_layers": 3, "dropout": 0.3, "attention_dropout": 0.2},
]
GEMMA2: Final[list[Mapping[str, Any]]] = [
    {},
    {"attn_logit_softcapping": None, "num_key_value_heads": 1, "num_hidden_layers": 2},
    {"final_logit_softcapping": None, "sliding_window": 1, "num_key_value_heads": 4},
    {"hidden_size": 20, "intermediate_size": 44, "sliding_window": 4096, "head_dim": 2},
    {"attn_logit_softcapping": None, "final_logit_softcapping": None, "query_pre_attn_scalar": 144},
]
WHISPER: Final[list[Mapping[str, Any]]] = [
    {},
    {"num_mel_bins": 9, "encoder_layers": 1, "decoder_layers": 2, "max_source_positions": 5},
    {"d_model": 20, "encoder_ffn_dim": 44, "decoder_ffn_dim": 36, "encoder_attention_heads": 5},
    {"encoder_attention_heads": 1, "decoder_attention_heads": 6, "max_target_positions": 5},
    {"decoder_layers": 1, "max_source_positions": 3, "num_mel_bins": 1, "dropout": 0.2},
]
KINDS: Final = {
    "roberta": (robertas, ROBERTA),
    "distilbert": (distilberts, DISTILBERT),
    "gemma2": (gemmas, GEMMA2),
    "whisper": (whispers, WHISPER),
}

EVERY: Final[Mapping[str, Family]] = {
    **FAMILIES,
    **{name: of(configs[0]) for name, (of, configs) in KINDS.items()},
}
CONFIGURED: Final[Mapping[str, Family]] = {
    f"{name}-{place}": of(config)
    for name, (of, configs) in KINDS.items()
    for place, config in enumerate(configs[1:], 1)
}
