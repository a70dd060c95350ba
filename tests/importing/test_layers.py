"""Layers behind others: their repetition, and their lines in the file of names."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import torch
from torch import Tensor, nn

import xg


class Layer(nn.Module):
    """An MLP; a wide one has a norm."""

    def __init__(self, *, wide: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 9), nn.Linear(9, 6)
        self.norm = nn.LayerNorm(6) if wide else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.up(self.norm(x)).relu())


class Layers(nn.Module):
    """Layers of which the first ones are others."""

    def __init__(self, first: int, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(wide=i >= first) for i in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_behind_others_are_one_repetition() -> None:
    made = xg.trace(Layers(1, 4), torch.randn(2, 6))
    assert "N_L × Layer as layers : Y" in made.text
    assert made.sources["layers.0.W_up"].source == "layers.1.up.weight"
    assert '"layers.{*+1}.up.weight" = "T : layers.*.W_up"' in made.names
    assert '"layers.*.up.weight" = "T : layers_*.W_up"' in made.names


def test_a_last_layer_has_a_line_of_its_own() -> None:
    made = xg.trace(Layers(3, 4), torch.randn(2, 6))
    assert '"layers.*.up.weight" = "T : layers.*.W_up"' in made.names
    assert '"layers.3.up.weight" = "T : layers_3.W_up"' in made.names
