"""Checkpoints as they were published: older names, no prefix, buffers, copies, shards, bfloat16."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.families import Family
from models.more_families import EVERY, FIRST
from models.witness import Witness, published
from tier import THOROUGH

from xg.passes.ir_text import spell_program
from xg_runtime import tensorfile, weights
from xg_runtime.errors import InputError
from xg_runtime.module import Arrays

Config = dict[str, Any]
Made = Callable[[str, Family], Witness]


def as_gpt2(tensors: Arrays, config: Config) -> tuple[Arrays, Config]:
    """Of 2019: no prefix, the causal mask as a buffer of every layer."""
    bare = {name.removeprefix("transformer."): array for name, array in tensors.items()}
    masks = {f"h.{i}.attn.bias": np.ones((1, 1, 11, 11), np.float32) for i in range(3)}
    more = {f"h.{i}.attn.masked_bias": np.array(-1e4, np.float32) for i in range(3)}
    dropped = ("scale_attn_weights", "tie_word_embeddings", "add_cross_attention")
    kept = {name: value for name, value in config.items() if name not in dropped}
    return {**bare, **masks, **more}, {**kept, "n_ctx": 11, "task_specific_params": {"x": {}}}


def as_llama(tensors: Arrays, config: Config) -> tuple[Arrays, Config]:
    """Of 2023: the base of the turns beside null, speeds as a buffer, and a copy of a tied head."""
    speeds = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": np.ones(3) for i in range(3)}
    head = {"lm_head.weight": tensors["model.embed_tokens.weight"]}
    base = config.pop("rope_parameters")["rope_theta"]
    return {**head, **tensors, **speeds}, {**config, "rope_theta": base, "rope_scaling": None}


def as_bert(tensors: Arrays, config: Config) -> tuple[Arrays, Config]:
    """Of 2018: names of TensorFlow, the head for sentence pairs, copies of what is tied."""
    older = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): array
        for name, array in tensors.items()
    }
    head = "cls.predictions"
    copies = {
        f"{head}.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        f"{head}.decoder.bias": tensors[f"{head}.bias"],
    }
    others = {"bert.pooler.dense.weight": np.ones((12, 12)), "bert.pooler.dense.bias": np.ones(12)}
    pairs = {
        "cls.seq_relationship.weight": np.ones((2, 12)),
        "cls.seq_relationship.bias": np.ones(2),
    }
    ids = {"bert.embeddings.position_ids": np.arange(11)[None]}
    kept = {**config, "position_embedding_type": "absolute"}
    del kept["tie_word_embeddings"]
    return {**older, **copies, **others, **pairs, **ids}, kept


def as_t5(tensors: Arrays, config: Config) -> tuple[Arrays, Config]:
    """Of 2020: the table of words three times, and no word on whether the output is scaled."""
    copies = {
        f"{side}.embed_tokens.weight": tensors["shared.weight"] for side in ("encoder", "decoder")
    }
    tied = "lm_head.weight" not in tensors
    kept = {name: value for name, value in config.items() if name != "scale_decoder_outputs"}
    return {**tensors, **copies}, {**kept, "tie_word_embeddings": tied}


def as_deepseek2(tensors: Arrays, config: Config) -> tuple[Arrays, Config]:
    """Of 2024: the turns in a table of their own, without the base; what code of its own reads."""
    turns = config.pop("rope_parameters")
    older = {"rope_theta": turns.pop("rope_theta"), "rope_scaling": turns}
    turns["type"] = turns.pop("rope_type")
    own = {"moe_layer_freq": 1, "scoring_func": "softmax", "aux_loss_alpha": 0.001, "ep_size": 1}
    dropped = ("head_dim", "qk_head_dim", "mlp_bias", "output_router_logits")
    kept = {name: value for name, value in config.items() if name not in dropped}
    return tensors, {**kept, **older, **own}


def as_mamba2(tensors: Arrays, config: Config) -> tuple[Arrays, Config]:
    """Of 2024: a number that JSON lacks as Python writes it."""
    assert config["time_step_limit"] == [0.0, float("inf")]
    return tensors, {**config, "time_step_rank": 256, "norm_before_gate": False}


OLDER = {
    "gpt2": as_gpt2,
    "llama": as_llama,
    "bert": as_bert,
    "t5": as_t5,
    "deepseek_v2": as_deepseek2,
    "mamba2": as_mamba2,
}
OTHERWISE = ("llama, tied", "t5 v1.1")  # another way than the first of their family goes
YARN: Config = {
    "rope_type": "yarn",
    "factor": 40.0,
    "original_max_position_embeddings": 64,
    "mscale": 0.7,
    "mscale_all_dim": 0.7,
}


@pytest.mark.parametrize("name", list(EVERY) if THOROUGH else [*FIRST, *OTHERWISE])
def test_an_older_checkpoint_is_the_same(name: str, witness_of: Made, tmp_path: Path) -> None:
    witness = witness_of(name, EVERY[name])
    held = weights.read(witness.folder)
    assert held.config is not None
    older = OLDER.get(held.config["model_type"], lambda tensors, config: (tensors, config))
    if held.config["model_type"] == "llama" and not held.config["tie_word_embeddings"]:
        tensors, config = held.tensors, held.config
    else:
        tensors, config = older(dict(held.tensors), dict(held.config))
    weights.write(tmp_path / "older", tensors, config, shard_bytes=2_000)
    found = published(witness.family.path, tmp_path / "older")
    assert found.params.keys() == witness.held.params.keys()
    for name, array in witness.held.params.items():
        assert np.array_equal(found.params[name], array), name
    programs = [spell_program(each.program.graphs) for each in (found, witness.held)]
    assert programs[0] == programs[1]


def test_bfloat16_becomes_the_same_numbers(one_of_each: Witness, tmp_path: Path) -> None:
    """Cut to 16 bits by their upper half, whose lower half is then zero."""
    held = weights.read(one_of_each.folder)
    bits = {n: a.astype(np.float32).view(np.uint32) >> 16 for n, a in held.tensors.items()}
    data = tensorfile.pack({name: array.astype(np.uint16) for name, array in bits.items()})
    (tmp_path / "model.safetensors").write_bytes(data.replace(b'"U16"', b'"BF16"', 0))
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b'"U16"', b'"BF16"')
    whole = len(header).to_bytes(8, "little") + header + data[8 + length :]
    (tmp_path / "model.safetensors").write_bytes(whole)
    (tmp_path / "config.json").write_text(json.dumps(held.config), encoding="utf-8")
    found = published(one_of_each.family.path, tmp_path)
    for name, array in one_of_each.held.params.items():
        assert found.params[name].dtype == np.float32
        assert np.allclose(found.params[name], array, rtol=2**-7, atol=0)
        assert not (found.params[name].view(np.uint32) & 0xFFFF).any()


# Of a model_type a setting that the diagram does not describe, and the error's words for it.
REFUSED: list[tuple[str, str, object, str]] = [
    ("gpt2", "model_type", "gptj", 'model_type = "gptj", but the diagram is only right for "gpt2"'),
    ("gpt2", "activation_function", "relu", "activation_function"),
    ("llama", "rope_scaling", {"type": "linear", "factor": 2.0}, "rope_scaling.type"),
    ("llama", "rope_parameters", {"rope_type": "yarn"}, "has no rope_parameters.factor"),
    ("llama", "rope_parameters", {"rope_type": "longrope"}, "longrope, but the diagram knows"),
    ("llama", "mlp_bias", True, "mlp_bias = true"),
    (
        "llama",
        "model_type",
        "olmo",
        'model_type = "olmo", but the diagram is only right for "llama"',
    ),
    ("mistral", "rope_scaling", {"rope_type": "longrope"}, "rope_scaling.rope_type = longrope"),
    ("mistral", "rope_scaling", {"rope_type": "yarn"}, "has no rope_parameters.factor"),
    ("mistral", "rope_scaling", YARN | {"truncate": False}, "rope_scaling.truncate = false"),
    ("mistral", "sliding_window", "wide", "sliding_window = wide, but the diagram knows null"),
    ("qwen2", "use_sliding_window", True, "use_sliding_window = true"),
    ("qwen2", "layer_types", ["full_attention", "sliding_attention"], "layer_types = "),
    ("qwen3", "layer_types", ["sliding_attention"] * 3, "layer_types = "),
    ("qwen3", "hidden_act", "gelu", "hidden_act"),
    ("phi3", "partial_rotary_factor", 0.75, "partial_rotary_factor = 0.75"),
    ("phi3", "rope_parameters", {"rope_type": "longrope"}, "rope_parameters.rope_type"),
    ("mixtral", "sliding_window", 4096, "sliding_window = 4096"),
    (
        "mamba",
        "hidden_act",
        "gelu",
        'hidden_act = "gelu", but the diagram is only right for "silu"',
    ),
    ("mamba", "time_step_rank", "auto", "time_step_rank should be a number"),
    ("mamba", "use_bias", 1, "use_bias = 1, but the diagram knows true, false"),
    ("mamba2", "hidden_act", "gelu", 'hidden_act = "gelu"'),
    ("mamba2", "time_step_limit", [0.0, 0.1], r"has time_step_limit = \[0.0, 0.1\]"),
    ("mamba2", "time_step_limit", {"__float__": "Infinity"}, "time_step_limit = Infinity"),
    (
        "rwkv",
        "model_type",
        "rwkv7",
        'model_type = "rwkv7", but the diagram is only right for "rwkv"',
    ),
    ("rwkv", "attention_hidden_size", "auto", "attention_hidden_size should be a number"),
    (
        "rwkv",
        "tie_word_embeddings",
        1,
        "tie_word_embeddings = 1, but the diagram knows true, false",
    ),
    ("bert", "hidden_size", "12", "hidden_size should be a number"),
    ("bert", "is_decoder", True, "is_decoder"),
    ("roberta", "model_type", "xlm-roberta", 'the diagram is only right for "bert"'),
    (
        "roberta",
        "hidden_act",
        "relu",
        'hidden_act = "relu", but the diagram is only right for "gelu"',
    ),
    ("roberta", "is_decoder", True, "is_decoder = true"),
    ("roberta", "pad_token_id", "<pad>", "pad_token_id should be a number"),
    ("distilbert", "activation", "relu", 'activation = "relu"'),
    ("distilbert", "tie_word_embeddings", False, "tie_word_embeddings = false"),
    ("gemma2", "layer_types", ["full_attention", "sliding_attention"] * 2, "layer_types = "),
    ("gemma2", "layer_types", ["sliding_attention"] * 4, "layer_types = "),
    ("gemma2", "attention_bias", True, "attention_bias = true"),
    ("gemma2", "use_bidirectional_attention", True, "use_bidirectional_attention = true"),
    ("gemma2", "hidden_activation", "gelu", 'hidden_activation = "gelu"'),
    ("gemma2", "attn_logit_softcapping", "high", "attn_logit_softcapping = high"),
    ("gemma2", "rope_parameters", {"rope_type": "yarn"}, "rope_parameters.rope_type"),
    ("deepseek_v3", "norm_topk_prob", False, "norm_topk_prob = false, but the diagram knows true"),
    ("deepseek_v3", "rope_interleave", False, "rope_interleave = false"),
    ("deepseek_v3", "n_group", None, "has no n_group: it should be a number above 0"),
    ("deepseek_v3", "num_experts_per_tok", 7, "num_experts_per_tok = 7: it should be at most n_r"),
    ("deepseek_v3", "scoring_func", "softmax", 'scoring_func = "softmax"'),
    ("deepseek_v2", "norm_topk_prob", True, "norm_topk_prob = true"),
    ("deepseek_v2", "mlp_bias", True, "mlp_bias = true"),
    ("deepseek_v2", "moe_layer_freq", 2, "moe_layer_freq = 2"),
    ("deepseek_v2", "scoring_func", "sigmoid", 'scoring_func = "sigmoid"'),
    ("deepseek_v2", "topk_method", "noaux_tc", "topk_method = noaux_tc, but the diagram knows"),
    ("deepseek_v2", "n_group", None, "has no n_group: it should be a number above 0"),
    ("deepseek_v2", "num_key_value_heads", 1, "num_key_value_heads must be equal"),
    ("deepseek_v2", "head_dim", 6, "qk_rope_head_dim and head_dim must be equal"),
    ("deepseek_v2", "rope_parameters", {"rope_type": "linear"}, "knows default, yarn"),
    ("deepseek_v2", "rope_parameters", {"rope_type": "yarn"}, "has no rope_parameters.factor"),
    ("deepseek_v2", "rope_parameters", YARN | {"mscale": 1.0}, "mscale_all_dim must be equal"),
    ("deepseek_v2", "rope_parameters", YARN | {"mscale": None}, "has no rope_parameters.msc"),
    (
        "deepseek_v2",
        "rope_parameters",
        YARN | {"factor": 1},
        "factor = 1: it should be above 1",
    ),
    ("deepseek_v2", "rope_parameters", YARN | {"truncate": False}, "truncate = false"),
    (
        "deepseek_v2",
        "rope_parameters",
        YARN | {"attention_factor": 2.0},
        "attention_factor = 2",
    ),
    ("whisper", "activation_function", "relu", 'activation_function = "relu"'),
    ("whisper", "scale_embedding", True, "scale_embedding = true"),
    ("whisper", "tie_word_embeddings", False, "tie_word_embeddings = false"),
    ("clip", "model_type", "siglip", 'the diagram is only right for "clip"'),
    ("clip", "text_config", {"hidden_act": "relu"}, "text_config.hidden_act must be equal"),
    ("clip", "vision_config", {"image_size": [8, 6]}, "image_size should be a number"),
    ("t5", "feed_forward_proj", "gated-silu", "the diagram knows relu, gated-gelu"),
    (
        "t5",
        "dense_act_fn",
        "gelu",
        'dense_act_fn = "gelu", but the diagram is only right for "(relu|gelu_new)"',
    ),
]


def refusal(witness: Witness, folder: Path) -> str:
    """The error of a checkpoint that is read by the diagram of a family."""
    with pytest.raises(InputError) as refused:
        published(witness.family.path, folder)
    return str(refused.value)


def test_a_config_of_something_else_is_refused(witness: Witness, tmp_path: Path) -> None:
    """A config that the diagram does not describe must not be computed in silence."""
    held = weights.read(witness.folder)
    config = held.config or {}
    for place, (family, key, value, message) in enumerate(REFUSED):
        if config["model_type"] == family:
            other = tmp_path / str(place)
            weights.write(other, held.tensors, {**config, key: value})
            assert re.search(message, refusal(witness, other)), (key, value)
