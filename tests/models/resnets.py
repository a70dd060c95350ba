"""Witnesses of ResNet, whose running statistics are drawn, too."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np
from models.families import BATCH, N_C, Arrays, Family, Tensor, call_pictures

RESNET: Final[list[Mapping[str, Any]]] = [
    {},
    {"layer_type": "basic", "hidden_sizes": [6, 7, 9, 10], "depths": [2, 2, 1, 2]},
    {"depths": [1, 1, 1, 1], "embedding_size": 9, "num_channels": 1},
    {"layer_type": "basic", "hidden_sizes": [6, 5, 4, 3], "depths": [1, 3, 2, 1]},
    {"hidden_sizes": [20, 16, 12, 8], "depths": [3, 1, 2, 1]},
    {"hidden_sizes": [4, 4, 8, 8], "depths": [1, 2, 1, 3], "embedding_size": 5},
    {"embedding_size": 8},
    {"layer_type": "basic", "hidden_sizes": [6, 7, 9, 10], "embedding_size": 5},
]


def resnet(config: Mapping[str, Any]) -> Tensor:
    torch, transformers = import_module("torch"), import_module("transformers")
    common: dict[str, Any] = {
        "num_channels": 2, "embedding_size": 6, "hidden_sizes": [8, 12, 16, 20],
        "depths": [2, 1, 3, 2], "num_labels": N_C,
    }  # fmt: skip
    model = transformers.ResNetForImageClassification(
        transformers.ResNetConfig(**{**common, **config})
    )
    drawn = torch.Generator().manual_seed(0)
    for name, statistic in model.named_buffers():
        if "running_mean" in name:
            statistic.uniform_(-0.5, 0.5, generator=drawn)
        elif "running_var" in name:
            statistic.uniform_(0.2, 1.0, generator=drawn)
    return model


def resnets(config: Mapping[str, Any]) -> Family:
    channels = config.get("num_channels", 2)

    def pictures(rng: np.random.Generator) -> Arrays:
        return {"I": rng.normal(size=(BATCH, channels, 64, 96)), "t": rng.integers(0, N_C, BATCH)}

    return Family("resnet", lambda: resnet(config), pictures, call_pictures, coarse=0.4)
