"""The witnesses: tiny models of transformers, drawn at random, with all that each family can have.

Every size differs from every other, no parameter is zero or one, and everything is float64.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tensor: TypeAlias = Any  # of torch, which is imported where it is used
Arrays: TypeAlias = dict[str, NDArray[Any]]

DIAGRAMS: Final = Path(__file__).parents[2] / "diagrams" / "models"
V, N_C, BATCH, LENGTH = 17, 7, 2, 5


def cross_entropy(logits: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """The mean over the targets that count."""
    from torch.nn import functional

    rows = functional.cross_entropy(logits.flatten(0, -2), given["t"].flatten(), reduction="none")
    counts = next((given[name] for name in ("w", "keep_y") if name in given), given["t"] * 0 + 1)
    return (rows * counts.flatten()).sum() / counts.sum()


def contrastive(logits: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """The loss of CLIPModel(…, return_loss=True)."""
    loss: Any = import_module("transformers.models.clip.modeling_clip")
    return loss.image_text_contrastive_loss(logits.T)


@dataclass(frozen=True)
class Family:
    """A model of transformers, the diagram that should compute the same, and what both read.

    `model` makes it, `inputs` are the diagram's, `call` gives the witness's logits for these.
    `names` is what the file of names adds to that of the diagram, where settings leave it open.
    """

    diagram: str
    model: Callable[[], Tensor]
    inputs: Callable[[np.random.Generator], Arrays]
    call: Callable[[Tensor, Mapping[str, Tensor]], Tensor]
    loss: Callable[[Tensor, Mapping[str, Tensor]], Tensor] = cross_entropy
    coarse: float = 0.2  # how far gradients may be in bfloat16
    names: str | None = None

    @property
    def says_names(self) -> list[str]:
        """The argument of `--to` that says whose names, where the parameters do not."""
        return (
            ["--names", str(DIAGRAMS / f"{self.diagram}.{self.names}.names.toml")]
            if self.names
            else []
        )

    @property
    def path(self) -> Path:
        return DIAGRAMS / f"{self.diagram}.xg"


@contextmanager
def in_double() -> Generator[None]:
    """Let transformers compute in float64 where it asks for float32: in norms, softmax, RoPE."""
    torch: Any = import_module("torch")
    for table in ("safetensors.torch", "torch._export.serde.serialize"):
        import_module(table)  # it would keep a table without float32
    import_module("torch.storage")._dtype_to_storage_type_map()  # as this would, when first called
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def randomised(model: Tensor) -> Tensor:
    """The model with every parameter drawn again, away from zero."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    for param in model.parameters():
        param.data = 0.3 * torch.randn_like(param, dtype=torch.float64) + 0.15
    return model.eval()


def gpt2() -> Tensor:
    transformers: Any = import_module("transformers")
    config = transformers.GPT2Config(
        vocab_size=V, n_embd=12, n_layer=3, n_head=2, n_inner=20, n_positions=11,
        layer_norm_epsilon=3e-4, bos_token_id=0, eos_token_id=0, attn_implementation="eager",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama(*, tied: bool) -> Tensor:
    transformers: Any = import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=12, num_hidden_layers=3, num_attention_heads=4, head_dim=6,
        num_key_value_heads=2, intermediate_size=10, rms_norm_eps=3e-4, tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": 77.0},
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def like_llama(name: str, config: Mapping[str, Any]) -> Tensor:
    """A relative of Llama: what all have, and what this one has or changes."""
    transformers: Any = import_module("transformers")
    common: dict[str, Any] = {
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 10, "rms_norm_eps": 3e-4, "head_dim": 6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "pad_token_id": None,
        "attn_implementation": "eager",
    }  # fmt: skip
    made = getattr(transformers, f"{name}Config")(**{**common, **config})
    return getattr(transformers, f"{name}ForCausalLM")(made)


def slowed(**numbers: float) -> dict[str, Any]:
    """The turns of Llama 3.1, with pairs that are slowed, kept and between."""
    turns = {"rope_type": "llama3", "rope_theta": 77.0, "factor": 4.0, "low_freq_factor": 1.0}
    more = {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    return {"rope_parameters": {**turns, **more, **numbers}}


def yarn(**numbers: float) -> dict[str, Any]:
    """The turns of YaRN, with pairs that are slowed, kept and between, and larger scores."""
    turns = {"rope_type": "yarn", "rope_theta": 77.0, "factor": 4.0, "beta_fast": 4.0}
    return {"rope_parameters": {**turns, "original_max_position_embeddings": 64, **numbers}}


def mamba(*, own: bool = False, **differing: object) -> Tensor:
    """Sizes, biases and the head as given; the rank of the steps in time is a size of its own."""
    transformers: Any = import_module("transformers")
    config = transformers.MambaConfig(**{
        "vocab_size": V, "hidden_size": 12, "num_hidden_layers": 2, "state_size": 5,
        "time_step_rank": 3, "layer_norm_epsilon": 3e-4, "tie_word_embeddings": not own,
        **differing,
    })  # fmt: skip
    return transformers.MambaForCausalLM(config)


def mambas(*, own: bool = False, **differing: object) -> Family:
    return Family("mamba", lambda: mamba(own=own, **differing), words, call_words)


def bert() -> Tensor:
    transformers: Any = import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=12, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=10, max_position_embeddings=11, type_vocab_size=4, layer_norm_eps=3e-4,
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def vit() -> Tensor:
    transformers: Any = import_module("transformers")
    config = transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=10,
        image_size=8, patch_size=4, num_channels=2, num_labels=N_C, layer_norm_eps=3e-4,
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


def clip(*, patch: int = 4, act: str = "quick_gelu", end: int = 2, layers: int = 2) -> Tensor:
    """The towers differ in every size; `end` is the token of the end, or 2 for the largest."""
    transformers: Any = import_module("transformers")
    shared = {"hidden_act": act, "layer_norm_eps": 3e-4, "attn_implementation": "eager"}
    image = {
        "hidden_size": 12, "num_hidden_layers": layers, "num_attention_heads": 3,
        "intermediate_size": 10, "image_size": 8, "patch_size": patch, "num_channels": 2, **shared,
    }  # fmt: skip
    text = {
        "vocab_size": V, "hidden_size": 10, "num_hidden_layers": 5 - layers,
        "num_attention_heads": 2, "intermediate_size": 14, "max_position_embeddings": 11,
        "eos_token_id": end, **shared,
    }  # fmt: skip
    config = transformers.CLIPConfig(
        vision_config=image, text_config=text, projection_dim=6, attn_implementation="eager"
    )
    return transformers.CLIPModel(config)


def t5(*, gated: bool) -> Tensor:
    """Gated ones have a head of their own, as T5 v1.1, which transformers ties when it is made."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    config = transformers.T5Config(
        vocab_size=V, d_model=12, d_kv=5, d_ff=10, num_layers=2, num_decoder_layers=3, num_heads=4,
        relative_attention_num_buckets=6, relative_attention_max_distance=9,
        layer_norm_epsilon=3e-4, tie_word_embeddings=not gated,
        feed_forward_proj="gated-gelu" if gated else "relu",
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    if gated:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(V, 12))
    return model


def words(rng: np.random.Generator) -> Arrays:
    return {name: rng.integers(0, V, (BATCH, LENGTH)) for name in ("ids", "t")}


def masked_words(rng: np.random.Generator) -> Arrays:
    """Without the word 0: it pads, and transformers holds the gradient of its row at zero."""
    ids = rng.integers(1, V, (BATCH, LENGTH))
    keep, w = np.ones((2, BATCH, LENGTH), np.int64)
    keep[0, 3:] = 0
    w[1, ::2] = 0
    return {
        **words(rng),
        "ids": ids,
        "types": rng.integers(0, 4, (BATCH, LENGTH)),
        "keep": keep,
        "w": w,
    }


def pictures(rng: np.random.Generator) -> Arrays:
    return {"I": rng.normal(size=(BATCH, 2, 8, 8)), "t": rng.integers(0, N_C, BATCH)}


def captions(rng: np.random.Generator) -> Arrays:
    """Texts of several lengths, whose ends V - 1 are followed by the token that pads."""
    ids = rng.integers(3, V - 1, (4, LENGTH))
    for row, end in enumerate((4, 2, 3, 1)):
        ids[row, end:] = V - 1 if row % 2 else 1
        ids[row, end] = V - 1
    return {"I": rng.normal(size=(4, 2, 8, 8)), "ids": ids}


def pairs(rng: np.random.Generator) -> Arrays:
    """Long ones, so that distances fall into every bucket."""
    keep_x, keep_y = np.ones((BATCH, 12), np.int64), np.ones((BATCH, 11), np.int64)
    keep_x[0, 9:] = keep_y[1, 8:] = 0
    return {
        "x": rng.integers(0, V, keep_x.shape),
        "keep_x": keep_x,
        "y": rng.integers(0, V, keep_y.shape),
        "keep_y": keep_y,
        "t": rng.integers(0, V, keep_y.shape),
    }


def call_words(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    return model(input_ids=given["ids"]).logits


def call_masked(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    found = model(
        input_ids=given["ids"], token_type_ids=given["types"], attention_mask=given["keep"]
    )
    return found.logits


def call_pictures(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    return model(pixel_values=given["I"]).logits


def call_captions(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    """With a mask of what pads: behind the end it changes nothing."""
    first = (given["ids"] == V - 1).int().argmax(-1)[:, None]
    keep = (given["ids"].cumsum(-1) * 0 + 1).cumsum(-1) - 1 <= first
    found = model(
        input_ids=given["ids"], pixel_values=given["I"], attention_mask=keep.to(given["ids"])
    )
    return found.logits_per_image


def call_pairs(model: Tensor, given: Mapping[str, Tensor]) -> Tensor:
    found = model(
        input_ids=given["x"],
        attention_mask=given["keep_x"],
        decoder_input_ids=given["y"],
        decoder_attention_mask=given["keep_y"],
    )
    return found.logits


TIED: Final = {"tie_word_embeddings": True}
ONE_KEY: Final = {"num_key_value_heads": 1, "num_hidden_layers": 1}
EACH_KEY: Final = {"num_key_value_heads": 4, "head_dim": 2, "rms_norm_eps": 1e-6}
LARGE: Final = {"vocab_size": 23, "hidden_size": 20, "intermediate_size": 44}

# What the configs of one family differ in; the first of each is a family of every test.
LIKE_LLAMA: Final[Mapping[str, list[Mapping[str, Any]]]] = {
    "Llama": [
        slowed(),
        slowed(factor=32.0, high_freq_factor=2.0) | TIED,
        slowed(original_max_position_embeddings=4096) | EACH_KEY,
        {"attention_bias": True, **slowed(low_freq_factor=0.5)},
        {"attention_bias": True, **ONE_KEY},
        yarn(),
        {"head_dim": 10, **yarn(mscale=1.5, mscale_all_dim=0.5, beta_slow=0.5)},
    ],
    "Mistral": [
        {"sliding_window": 3},
        {"sliding_window": 1, **ONE_KEY},
        {"sliding_window": None, **LARGE},
        {"sliding_window": 2, **EACH_KEY, **TIED},
        {"sliding_window": 4096, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
        {"sliding_window": 3, **yarn(factor=8.0, attention_factor=1.25)},
    ],
    "Qwen2": [
        {},
        {"head_dim": 10, **yarn(attention_factor=0.8, beta_slow=0.3)},
        TIED,
        {**ONE_KEY, **LARGE},
        EACH_KEY,
        {"use_sliding_window": False, "sliding_window": 3, "max_window_layers": 1, **ONE_KEY},
    ],
    "Qwen3": [
        {"attention_bias": True, **TIED},
        {"head_dim": 10, **yarn(factor=40.0, beta_fast=9.0, mscale=2.0), **TIED},
        {},
        {**ONE_KEY, **TIED},
        {**EACH_KEY, "hidden_size": 20},
        {"attention_bias": True, **LARGE},
    ],
    "Phi3": [
        {"sliding_window": 3},
        {},
        {**ONE_KEY, **TIED},
        {**EACH_KEY, "sliding_window": 2},
        {**LARGE, "sliding_window": 4096},
    ],
}


def relative(name: str, config: Mapping[str, Any]) -> Family:
    names = "phi3" if name == "Phi3" else None
    return Family("llama", lambda: like_llama(name, config), words, call_words, names=names)


FAMILIES: Final[Mapping[str, Family]] = {
    "gpt2": Family("gpt2", gpt2, words, call_words),
    "llama": Family("llama", lambda: llama(tied=False), words, call_words),
    "llama, tied": Family("llama", lambda: llama(tied=True), words, call_words),
    "mamba": mambas(),
    "mamba, all biases, own head": mambas(own=True, use_bias=True, expand=3, conv_kernel=3),
    "bert": Family("bert", bert, masked_words, call_masked),
    "vit": Family("vit", vit, pictures, call_pictures),
    # The gradients of CLIP's towers are differences of nearly equal vectors.
    "clip": Family("clip", clip, captions, call_captions, contrastive, coarse=0.7),
    "clip, by its end": Family(
        "clip",
        lambda: clip(patch=2, act="gelu", end=V - 1, layers=3),
        captions,
        call_captions,
        contrastive,
        coarse=0.7,
    ),
    "t5": Family("t5", lambda: t5(gated=False), pairs, call_pairs),
    "t5 v1.1": Family("t5", lambda: t5(gated=True), pairs, call_pairs),
    **{name: relative(name, configs[0]) for name, configs in LIKE_LLAMA.items()},
}

# What the configurations of a family differ in besides; of these logits, loss and gradients agree.
FURTHER: Final[Mapping[str, Family]] = {
    "mamba, no biases": mambas(use_conv_bias=False),
    "mamba, a bias in linear maps alone": mambas(use_bias=True, use_conv_bias=False),
    "mamba, one state for each": mambas(state_size=1, conv_kernel=2, time_step_rank=1),
    "mamba, a convolution longer than the text": mambas(conv_kernel=7, expand=1, own=True),
    "mamba, one layer": mambas(num_hidden_layers=1, layer_norm_epsilon=0.1, time_step_rank=12),
}
