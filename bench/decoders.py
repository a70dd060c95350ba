"""The decoders that ship and that transformers has, each at the sizes of a measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

HEADS, EXPERTS = 8, 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model: its width, layers and words, and the longest text."""

    width: int
    layers: int
    words: int
    length: int

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.width // HEADS

    @property
    def common(self) -> dict[str, Any]:
        """The settings that all configurations of transformers call by the same names."""
        return {"vocab_size": self.words, "hidden_size": self.width} | {
            "num_hidden_layers": self.layers,
            "attn_implementation": "eager",
            "experts_implementation": "eager",
            "pad_token_id": None,
        }

    @property
    def grouped(self) -> dict[str, Any]:
        """The settings of Llama and of all that are like it: two query heads share a key head."""
        return self.common | {
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS // 2,
            "head_dim": self.head,
            "intermediate_size": 11 * self.width // 4,
        }


@dataclass(frozen=True, slots=True)
class Decoder:
    """A diagram, the name of its class in transformers, and the configuration of that.

    `cache` is what transformers calls the values that a step leaves, as it takes and gives them.
    """

    diagram: str
    named: str
    config: Callable[[Sizes], Mapping[str, Any]] = lambda sizes: sizes.grouped
    head: str = "ForCausalLM"
    cache: str = "past_key_values"
    names: str | None = None

    def model(self, sizes: Sizes) -> Any:  # noqa: ANN401 - of torch
        """The model of transformers, with random weights."""
        transformers: Any = import_module("transformers")  # by name, as in experts.py
        config = getattr(transformers, f"{self.named}Config")(**self.config(sizes))
        return getattr(transformers, f"{self.named}{self.head}")(config).eval()


def _gpt2(sizes: Sizes) -> dict[str, Any]:
    return {"vocab_size": sizes.words, "n_embd": sizes.width, "n_layer": sizes.layers} | {
        "n_head": HEADS,
        "n_positions": sizes.length,
        "attn_implementation": "eager",
        "bos_token_id": 0,
        "eos_token_id": 0,
    }


def _mixtral(sizes: Sizes) -> dict[str, Any]:
    return sizes.grouped | {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}


def _deepseek(sizes: Sizes) -> dict[str, Any]:
    """One dense layer, then experts that are smaller, one of them for every token."""
    latents = {"q_lora_rank": 3 * sizes.width // 4, "kv_lora_rank": sizes.width // 2}
    heads = {"qk_nope_head_dim": sizes.head, "v_head_dim": sizes.head}
    return {**sizes.grouped, **latents, **heads} | {
        "num_key_value_heads": HEADS,
        "qk_rope_head_dim": sizes.head // 2,
        "n_routed_experts": EXPERTS,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 11 * sizes.width // 8,
        "first_k_dense_replace": 1,
    }


def _gemma(sizes: Sizes) -> dict[str, Any]:
    return sizes.grouped | {"query_pre_attn_scalar": sizes.head}


def _mamba2(sizes: Sizes) -> dict[str, Any]:
    return sizes.common | {"num_heads": 2 * HEADS, "head_dim": sizes.head, "n_groups": 1}


def _rwkv(sizes: Sizes) -> dict[str, Any]:
    return sizes.common | {"rescale_every": 0, "intermediate_size": 4 * sizes.width}


DECODERS: Final[Mapping[str, Decoder]] = {
    "gpt2": Decoder("gpt2", "GPT2", _gpt2, head="LMHeadModel"),
    "llama": Decoder("llama", "Llama"),
    "mistral": Decoder("llama", "Mistral"),
    "qwen2": Decoder("llama", "Qwen2"),
    "qwen3": Decoder("llama", "Qwen3"),
    "phi3": Decoder("llama", "Phi3", names="llama.phi3.names.toml"),
    "gemma2": Decoder("gemma2", "Gemma2", _gemma),
    "mixtral": Decoder("mixtral", "Mixtral", _mixtral),
    "deepseek2": Decoder("deepseek2", "DeepseekV2", _deepseek),
    "mamba": Decoder("mamba", "Mamba", lambda sizes: sizes.common, cache="cache_params"),
    "mamba2": Decoder("mamba2", "Mamba2", _mamba2, cache="cache_params"),
    "rwkv": Decoder("rwkv", "Rwkv", _rwkv, cache="state"),
}
