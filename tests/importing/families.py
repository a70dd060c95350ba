"""Tiny models of the families of transformers, from configurations: what `xg import` meets."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import Tensor

Kind: TypeAlias = Literal["text", "causal", "seq2seq", "vision", "audio", "speech", "spectrum"]

# Sizes that differ from each other; each config takes those that it has.
SMALL: Final[Mapping[str, Any]] = {
    "vocab_size": 99,
    "hidden_size": 24,
    "d_model": 24,
    "dim": 24,
    "num_hidden_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "n_layers": 2,
    "n_heads": 4,
    "num_heads": 4,
    "d_ff": 36,
    "d_kv": 6,
    "hidden_dim": 36,
    "num_attention_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 36,
    "encoder_ffn_dim": 36,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 40,
    "image_size": 16,
    "patch_size": 4,
    "num_channels": 3,
    "embedding_size": 12,
    "type_vocab_size": 2,
    "head_dim": 6,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "num_labels": 5,
    "ffn_hidden_size": 36,
    "encoder_hidden_dim": 36,
    "kv_channels": 6,
    "word_embed_proj_dim": 24,
}


@dataclass(frozen=True)
class Family:
    """A class of transformers, what it reads, and what its config needs beside small sizes."""

    model: str
    kind: Kind
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def build(self) -> Any:  # noqa: ANN401 - a model of transformers
        """The model with drawn weights, for evaluation."""
        transformers: Any = import_module("transformers")
        torch.manual_seed(0)
        model = getattr(transformers, self.model)
        default = model.config_class()
        names = {*default.to_dict(), *getattr(default, "attribute_map", {})}
        fits = {
            name: size
            for name, size in SMALL.items()
            if name in names and not isinstance(getattr(default, name, None), list | tuple)
        }
        if "decoder_start_token_id" in names:
            fits["decoder_start_token_id"] = 2
        config = model.config_class(**{**fits, "use_cache": False, **self.config})
        config._attn_implementation = "eager"
        return model(config).eval()

    def inputs(self, model: Any) -> dict[str, Tensor]:  # noqa: ANN401 - a model of transformers
        """One example: lengths that differ wherever axes do."""
        generator = torch.Generator().manual_seed(1)

        def ids(length: int) -> Tensor:
            return torch.randint(3, 90, (2, length), generator=generator)

        def keep(length: int) -> Tensor:
            return (torch.arange(length)[None] < torch.tensor([[length], [length - 2]])).long()

        def numbers(*shape: int) -> Tensor:
            return torch.randn(2, *shape, generator=generator)

        match self.kind:
            case "text" | "causal":
                masked = "attention_mask" in signature(model.forward).parameters
                mask = {"attention_mask": keep(7)} if masked else {}
                return {"input_ids": ids(7), **mask}
            case "seq2seq":
                return {"input_ids": ids(9), "attention_mask": keep(9), "decoder_input_ids": ids(7)}
            case "vision":
                return {"pixel_values": numbers(3, 16, 16)}
            case "audio":
                return {"input_values": numbers(64)}
            case "speech":
                return {"input_features": numbers(8, 20), "decoder_input_ids": ids(7)}
            case "spectrum":
                return {"input_values": numbers(16, 8)}


F = Family
ROUTED: Final[Mapping[str, Any]] = {"num_experts_per_tok": 2, "moe_intermediate_size": 20}
FAMILIES: Final[Mapping[str, Family]] = {
    # encoders of text
    "bert": F("BertForMaskedLM", "text"),
    "roberta": F("RobertaForMaskedLM", "text"),
    "xlm-roberta": F("XLMRobertaForSequenceClassification", "text"),
    "camembert": F("CamembertForTokenClassification", "text"),
    "distilbert": F("DistilBertForMaskedLM", "text"),
    "albert": F("AlbertForMaskedLM", "text"),
    "electra": F("ElectraForMaskedLM", "text"),
    "deberta": F("DebertaForMaskedLM", "text"),
    "deberta-v2": F("DebertaV2ForMaskedLM", "text"),
    "mpnet": F("MPNetForMaskedLM", "text"),
    "mobilebert": F(
        "MobileBertModel",
        "text",
        {"intra_bottleneck_size": 24, "true_hidden_size": 24, "embedding_size": 24},
    ),
    "modernbert": F("ModernBertForMaskedLM", "text"),
    "ernie": F("ErnieForMaskedLM", "text"),
    "layoutlm": F("LayoutLMModel", "text"),
    "nystromformer": F("NystromformerModel", "text"),
    "fnet": F("FNetModel", "text"),
    "squeezebert": F("SqueezeBertModel", "text", {"embedding_size": 24}),
    "convbert": F("ConvBertModel", "text", {"embedding_size": 24}),
    "xlnet": F("XLNetModel", "text", {"n_layer": 2, "n_head": 4, "d_inner": 36}),
    "funnel": F("FunnelBaseModel", "text"),
    "roformer": F("RoFormerModel", "text"),
    "esm": F("EsmModel", "text", {"position_embedding_type": "rotary"}),
    "big-bird": F("BigBirdModel", "text", {"attention_type": "original_full"}),
    "longformer": F("LongformerModel", "text", {"attention_window": 4}),
    "canine": F("CanineModel", "text"),
    # decoders
    "gpt2": F("GPT2LMHeadModel", "causal"),
    "gpt-neo": F(
        "GPTNeoForCausalLM", "causal", {"num_layers": 2, "attention_types": [[["global"], 2]]}
    ),
    "gpt-j": F("GPTJForCausalLM", "causal", {"rotary_dim": 4}),
    "gpt-neox": F(
        "GPTNeoXForCausalLM",
        "causal",
        {
            "hidden_size": 32,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            },
        },
    ),
    "gpt-bigcode": F("GPTBigCodeForCausalLM", "causal"),
    "opt": F("OPTForCausalLM", "causal"),
    "bloom": F("BloomForCausalLM", "causal", {"n_layer": 2, "n_head": 4}),
    "codegen": F("CodeGenForCausalLM", "causal", {"rotary_dim": 4}),
    "ctrl": F("CTRLLMHeadModel", "causal", {"dff": 36}),
    "openai-gpt": F("OpenAIGPTLMHeadModel", "causal"),
    "llama": F("LlamaForCausalLM", "causal"),
    "llama-3.1": F(
        "LlamaForCausalLM",
        "causal",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
    ),
    "mistral": F("MistralForCausalLM", "causal", {"sliding_window": None}),
    "mistral-window": F("MistralForCausalLM", "causal", {"sliding_window": 4}),
    "qwen2": F("Qwen2ForCausalLM", "causal"),
    "qwen3": F("Qwen3ForCausalLM", "causal"),
    "gemma": F("GemmaForCausalLM", "causal"),
    "gemma2": F("Gemma2ForCausalLM", "causal"),
    "gemma3": F("Gemma3ForCausalLM", "causal"),
    "phi": F("PhiForCausalLM", "causal", {"hidden_size": 32}),
    "phi3": F("Phi3ForCausalLM", "causal", {"pad_token_id": 0}),
    "stablelm": F(
        "StableLmForCausalLM",
        "causal",
        {
            "hidden_size": 32,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.5,
            },
        },
    ),
    "falcon": F("FalconForCausalLM", "causal"),
    "olmo": F("OlmoForCausalLM", "causal"),
    "olmo2": F("Olmo2ForCausalLM", "causal"),
    "cohere": F("CohereForCausalLM", "causal"),
    "starcoder2": F("Starcoder2ForCausalLM", "causal"),
    "granite": F("GraniteForCausalLM", "causal"),
    "glm": F("GlmForCausalLM", "causal", {"head_dim": 8}),
    "nemotron": F("NemotronForCausalLM", "causal", {"hidden_size": 32, "head_dim": 8}),
    "persimmon": F("PersimmonForCausalLM", "causal", {"hidden_size": 32}),
    "smollm3": F("SmolLM3ForCausalLM", "causal"),
    "helium": F("HeliumForCausalLM", "causal"),
    "mixtral": F("MixtralForCausalLM", "causal", {"num_local_experts": 4}),
    "qwen2-moe": F(
        "Qwen2MoeForCausalLM",
        "causal",
        {"num_experts": 4, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 12},
    ),
    "qwen3-moe": F("Qwen3MoeForCausalLM", "causal", {"num_experts": 4, **ROUTED}),
    "olmoe": F("OlmoeForCausalLM", "causal", {"num_experts": 4, **ROUTED}),
    "flex-olmo": F("FlexOlmoForCausalLM", "causal", {"num_experts": 4, **ROUTED}),
    "granite-moe": F("GraniteMoeForCausalLM", "causal", {"num_local_experts": 4, **ROUTED}),
    "hunyuan-moe": F("HunYuanMoEV1ForCausalLM", "causal", {"num_experts": 4, **ROUTED}),
    "gpt-oss": F("GptOssForCausalLM", "causal", {"num_local_experts": 4, **ROUTED}),
    "deepseek-v3": F(
        "DeepseekV3ForCausalLM",
        "causal",
        {
            "num_key_value_heads": 4,
            "n_routed_experts": 8,
            "n_group": 4,
            "topk_group": 2,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 12,
            "kv_lora_rank": 8,
            "q_lora_rank": 10,
            "qk_nope_head_dim": 5,
            "qk_rope_head_dim": 4,
            "head_dim": 4,
            "v_head_dim": 7,
            "first_k_dense_replace": 1,
        },
    ),
    "glm4-moe": F(
        "Glm4MoeForCausalLM",
        "causal",
        {
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 12,
            "first_k_dense_replace": 1,
        },
    ),
    "mamba": F("MambaForCausalLM", "causal", {"state_size": 4}),
    "rwkv": F("RwkvForCausalLM", "causal", {"attention_hidden_size": 24}),
    # encoder-decoder
    "t5": F("T5ForConditionalGeneration", "seq2seq"),
    "mt5": F("MT5ForConditionalGeneration", "seq2seq"),
    "bart": F("BartForConditionalGeneration", "seq2seq"),
    "marian": F("MarianMTModel", "seq2seq"),
    "pegasus": F("PegasusForConditionalGeneration", "seq2seq"),
    "mbart": F("MBartForConditionalGeneration", "seq2seq"),
    "m2m100": F("M2M100ForConditionalGeneration", "seq2seq"),
    "blenderbot": F("BlenderbotForConditionalGeneration", "seq2seq"),
    # vision
    "vit": F("ViTForImageClassification", "vision"),
    "deit": F("DeiTForImageClassification", "vision"),
    "beit": F("BeitForImageClassification", "vision"),
    "dinov2": F("Dinov2Model", "vision"),
    "swin": F(
        "SwinModel",
        "vision",
        {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2},
    ),
    "convnext": F(
        "ConvNextModel", "vision", {"depths": [1, 1], "hidden_sizes": [8, 12], "num_stages": 2}
    ),
    "resnet": F(
        "ResNetForImageClassification",
        "vision",
        {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1]},
    ),
    "clip-vision": F("CLIPVisionModel", "vision"),
    "clip-text": F("CLIPTextModel", "text"),
    "siglip": F("SiglipVisionModel", "vision"),
    "segformer": F(
        "SegformerModel",
        "vision",
        {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [8, 8, 16, 16],
            "num_attention_heads": [1, 2, 4, 4],
        },
    ),
    # audio
    "wav2vec2": F(
        "Wav2Vec2Model",
        "audio",
        {
            "conv_dim": [8, 8],
            "conv_kernel": [4, 3],
            "conv_stride": [2, 2],
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "num_feat_extract_layers": 2,
        },
    ),
    "whisper": F(
        "WhisperForConditionalGeneration",
        "speech",
        {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 16},
    ),
    "ast": F(
        "ASTModel",
        "spectrum",
        {"num_mel_bins": 8, "max_length": 16, "frequency_stride": 4, "time_stride": 4},
    ),
}
