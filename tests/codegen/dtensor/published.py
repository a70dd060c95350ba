"""Llama as it is published, whose layers call their attention by keyword."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Without its types: they take as long to read as a tenth of everything that is checked.
transformers: Any = import_module("transformers")


class PublishedLlama(transformers.LlamaForCausalLM):
    """The model with the words and their targets as the diagram's.

    Where rows of a sequence are cut, the model would count positions by what a rank has: it is
    given all of them.
    """

    def forward(self, ids: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        length = ids.shape[1]
        future = torch.full((length, length), -math.inf, dtype=torch.float64).triu(1)
        out: Any = super().forward(
            input_ids=ids,
            position_ids=torch.arange(length)[None],
            attention_mask=future[None, None],
        )
        return out.logits, functional.cross_entropy(out.logits.flatten(0, 1), t.flatten())


def published_llama(vocab: int, layers: int, width: int, hidden: int) -> PublishedLlama:
    """A small one, of four heads that share two of keys."""
    config = transformers.LlamaConfig(
        vocab_size=vocab,
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=hidden,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation="eager",
        use_cache=False,
    )
    return PublishedLlama(config)
