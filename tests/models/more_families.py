"""Further witnesses, in all that their configs can have.

Mixtral, RoBERTa, DistilBERT, Gemma 2, Whisper, DeepSeek-V2, DeepSeek-V3, Mamba-2, RWKV and ResNet.

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
    TIED,
    Arrays,
    Family,
    Tensor,
    V,
    call_masked,
    call_words,
    masked_words,
    words,
)
from models.resnets import RESNET, resnets
from tier import THOROUGH, some

PAD: Final = 1


def made(kind: str, head: str, config: Mapping[str, Any]) -> Tensor:
    """A model of transformers with this head, and eager where it could be otherwise."""
    transformers: Any = import_module("transformers")
    settings = getattr(transformers, f"{kind}Config")(**config, attn_implementation="eager")
    return getattr(transformers, f"{kind}For{head}")(settings)


def mixtral(config: Mapping[str, Any]) -> Tensor:
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 6, "intermediate_size": 10, "rms_norm_eps": 3e-4,
        "num_local_experts": 5, "num_experts_per_tok": 3, "experts_implementation": "eager",
        "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "pad_token_id": None,
    }  # fmt: skip
    return made("Mixtral", "CausalLM", {**common, **config})


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


def mixtrals(config: Mapping[str, Any]) -> Family:
    return Family("mixtral", lambda: mixtral(config), words, call_words)


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


def deepseek2(config: Mapping[str, Any]) -> Tensor:
    """Pairs of columns are complex numbers to transformers, which needs even sizes beside them."""
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3,
        "intermediate_size": 20, "q_lora_rank": 7, "kv_lora_rank": 10, "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 6, "n_shared_experts": 2,
        "num_experts_per_tok": 3, "moe_intermediate_size": 9, "first_k_dense_replace": 1,
        "routed_scaling_factor": 2.5, "rms_norm_eps": 3e-4, "experts_implementation": "eager",
        "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
    }  # fmt: skip
    return made("DeepseekV2", "CausalLM", {**common, **config})


def deepseek3(config: Mapping[str, Any]) -> Tensor:
    """The bias of the routes, no parameter to transformers, is such that each expert is used."""
    from torch import arange

    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3,
        "num_key_value_heads": 3, "intermediate_size": 20, "q_lora_rank": 7, "kv_lora_rank": 10,
        "qk_nope_head_dim": 5, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 6,
        "n_shared_experts": 2, "num_experts_per_tok": 3, "moe_intermediate_size": 9,
        "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1, "rms_norm_eps": 3e-4,
        "experts_implementation": "eager",
        "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
    }  # fmt: skip
    sizes = {**common, **config}
    heads = {"num_key_value_heads": sizes["num_attention_heads"]}
    model = made("DeepseekV3", "CausalLM", {**sizes, **heads})
    for place, layer in enumerate(model.model.layers):
        if place >= sizes["first_k_dense_replace"]:
            bias = layer.mlp.gate.e_score_correction_bias
            bias.copy_(0.1 * (arange(len(bias)) - 0.6 + 0.775 * place).cos())
    return model


def yarn(**numbers: float) -> dict[str, Any]:
    """Turns as DeepSeek-V2 is published with, of pairs that are slowed, kept and between."""
    turns = {"rope_type": "yarn", "rope_theta": 77.0, "factor": 40.0, "beta_fast": 4.0}
    scores = {"beta_slow": 1.0, "mscale": 0.707, "mscale_all_dim": 0.707}
    more = {"original_max_position_embeddings": 64, **numbers}
    return {"rope_parameters": {**turns, **scores, **more}, "qk_rope_head_dim": 8}


def mamba2(config: Mapping[str, Any]) -> Tensor:
    """Texts of several chunks, of which the last is not full."""
    transformers: Any = import_module("transformers")
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2, "num_heads": 6, "head_dim": 4,
        "state_size": 5, "n_groups": 3, "layer_norm_epsilon": 3e-4, "chunk_size": 3,
        "pad_token_id": None,
    }  # fmt: skip
    return transformers.Mamba2ForCausalLM(transformers.Mamba2Config(**{**common, **config}))


def rwkv(config: Mapping[str, Any]) -> Tensor:
    """Without states, which transformers writes in place, so that nothing has a gradient."""
    transformers: Any = import_module("transformers")
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2, "intermediate_size": 10,
        "layer_norm_epsilon": 3e-4, "rescale_every": 0, "use_cache": False,
    }  # fmt: skip
    return transformers.RwkvForCausalLM(transformers.RwkvConfig(**{**common, **config}))


def call_in_training(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """As it is trained: else transformers halves numbers from layer to layer, for float16."""
    return model.train()(input_ids=given["ids"]).logits


def rwkvs(config: Mapping[str, Any]) -> Family:
    return Family("rwkv", lambda: rwkv(config), words, call_in_training)


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


def deepseeks2(config: Mapping[str, Any]) -> Family:
    return Family("deepseek2", lambda: deepseek2(config), words, call_words)


def deepseeks3(config: Mapping[str, Any]) -> Family:
    return Family("deepseek2", lambda: deepseek3(config), words, call_words, names="v3")


def mambas2(config: Mapping[str, Any]) -> Family:
    return Family("mamba2", lambda: mamba2(config), words, call_words)


def gemmas(config: Mapping[str, Any]) -> Family:
    return Family("gemma2", lambda: gemma2(config), words, call_words)


MIXTRAL: Final[list[Mapping[str, Any]]] = [
    {},
    {"num_local_experts": 8, "num_experts_per_tok": 1, "num_key_value_heads": 1},
    {"num_local_experts": 4, "num_experts_per_tok": 4, "num_hidden_layers": 1, **TIED},
    {"hidden_size": 24, "head_dim": None, "num_key_value_heads": 4, "intermediate_size": 44},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "rms_norm_eps": 1e-6},
    {"num_local_experts": 2, "num_hidden_layers": 3, "num_experts_per_tok": 2, "vocab_size": 23},
]
FEWER: Final = {"num_local_experts": 3, "num_experts_per_tok": 2, **TIED}
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
BEST_GROUPS: Final = {"topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1}
DEEPSEEK2: Final[list[Mapping[str, Any]]] = [
    {**yarn(), **BEST_GROUPS, "attention_bias": True},
    {"q_lora_rank": None, "num_hidden_layers": 2, **yarn(factor=4, mscale=1, mscale_all_dim=1)},
    {"first_k_dense_replace": 0, "num_hidden_layers": 2, "n_shared_experts": 1, **TIED},
    {**BEST_GROUPS, "n_group": 3, "topk_group": 2, "first_k_dense_replace": 2, "v_head_dim": 2},
    {"q_lora_rank": None, "attention_bias": True, "first_k_dense_replace": 3},
    {"num_experts_per_tok": 6, "num_attention_heads": 1, "routed_scaling_factor": 1.0},
    {**yarn(beta_fast=32, original_max_position_embeddings=16), "hidden_size": 15, **TIED},
]
DEEPSEEK3: Final[list[Mapping[str, Any]]] = [
    {**yarn(), "attention_bias": True},
    {"q_lora_rank": None, "num_hidden_layers": 2, **yarn(factor=4, mscale=1, mscale_all_dim=1)},
    {"first_k_dense_replace": 0, "num_hidden_layers": 2, "n_group": 1, **TIED},
    {"n_group": 3, "topk_group": 2, "first_k_dense_replace": 2, "v_head_dim": 3},
    {"num_experts_per_tok": 1, "num_attention_heads": 1, "routed_scaling_factor": 1.0},
    {"n_routed_experts": 8, "n_group": 4, "topk_group": 3, "n_shared_experts": 1},
]
MAMBA2: Final[list[Mapping[str, Any]]] = [
    {"use_bias": True},
    {"use_conv_bias": False, "n_groups": 1, "state_size": 1, **TIED},
    {"expand": 3, "num_heads": 12, "head_dim": 3, "n_groups": 12, "chunk_size": 256},
    {"conv_kernel": 7, "num_heads": 1, "head_dim": 24, "n_groups": 1},
    {"use_bias": True, "use_conv_bias": False, "num_hidden_layers": 1, "conv_kernel": 2},
    {"expand": 1, "num_heads": 2, "head_dim": 6, "n_groups": 2, "layer_norm_epsilon": 0.1},
]
RWKV: Final[list[Mapping[str, Any]]] = [
    {},
    {"attention_hidden_size": 8, **TIED},
    {"hidden_size": 20, "attention_hidden_size": 28, "intermediate_size": None},
    {"num_hidden_layers": 5, "rescale_every": 2, "layer_norm_epsilon": 0.1},
    {"vocab_size": 23, "intermediate_size": 1, **TIED},
    {"attention_hidden_size": 2, "num_hidden_layers": 3, "layer_norm_epsilon": 1e-12},
]
KINDS: Final = {
    "mixtral": (mixtrals, MIXTRAL),
    "roberta": (robertas, ROBERTA),
    "distilbert": (distilberts, DISTILBERT),
    "gemma2": (gemmas, GEMMA2),
    "deepseek2": (deepseeks2, DEEPSEEK2),
    "deepseek3": (deepseeks3, DEEPSEEK3),
    "mamba2": (mambas2, MAMBA2),
    "rwkv": (rwkvs, RWKV),
    "whisper": (whispers, WHISPER),
    "resnet": (resnets, RESNET),
}

EVERY: Final[Mapping[str, Family]] = {
    **FAMILIES,
    **{name: of(configs[0]) for name, (of, configs) in KINDS.items()},
    "mixtral, 2 of 3, tied": mixtrals(FEWER),
}
# Of the families that one file of names describes, which differ in what configs say, the first.
FIRST: Final = some(EVERY, lambda name: (EVERY[name].diagram, EVERY[name].names), thorough=False)
ONE_OF_EACH: Final = list(EVERY) if THOROUGH else FIRST
CONFIGURED: Final[Mapping[str, Family]] = {
    f"{name}-{place}": of(config)
    for name, (of, configs) in KINDS.items()
    for place, config in enumerate(configs[1:], 1)
}
