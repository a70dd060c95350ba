"""`xg.trace`: a model in memory, by one example of its inputs."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch
from importing.sources import Classifier, Decoder
from torch import Tensor, nn

import xg


def test_sizes_that_a_model_does_not_fix_stay_free() -> None:
    made = xg.trace(Decoder().double(), torch.randint(0, 29, (2, 5)))
    assert "block Decoder(ids [B, S] in V) -> Y [B, S, V]" in made.text
    assert made.proof.worst < 1e-12
    assert len(made.proof.sizes) == 2


def test_axes_that_are_equally_long_are_one_size() -> None:
    made = xg.trace(Classifier(), torch.randn(3, 5, 10), torch.tensor([0, 1, 5]))
    assert "block Classifier(x [B, S, D], t [B] in N_C)" in made.text


def test_inputs_may_have_names() -> None:
    made = xg.trace(Classifier(), torch.randn(3, 5, 10), t=torch.tensor([0, 1, 5]), name="Judge")
    assert "block Judge(x [B, S, D], t [B] in N_C)" in made.text


def test_a_function_is_a_model() -> None:
    def doubled_relu(x: Tensor) -> Tensor:
        return 2 * torch.relu(x)

    assert "block DoubledRelu(" in xg.trace(doubled_relu, torch.randn(3, 5)).text


def test_the_mode_of_a_model_stays() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.25))
    model[1].eval()
    assert "DO(0.25)" in xg.trace(model, torch.randn(3, 4)).text
    assert [each.training for each in model] == [True, False]


class Branching(nn.Module):
    """Decides by its numbers, which torch.export does not follow."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_a_model_that_torch_cannot_trace_is_named() -> None:
    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(Branching(), torch.randn(3, 4))
    assert "torch.export cannot trace Branching" in str(error.value)
    assert [each.code for each in error.value.diagnostics] == ["XG0906"]


class Sorting(nn.Module):
    """Calls what the language lacks."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(x)
        return torch.sort(y)[0]  # the line


def test_a_reason_names_the_line_of_the_source(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(Sorting(), torch.randn(3, 4))
    assert ": return torch.sort(y)[0]  # the line" in str(error.value)
    assert "it comes from test_trace.py, line " in str(error.value)
    assert not recwarn.list


def test_a_decoder_gives_no_cache() -> None:
    """`use_cache` would be in the way of an export; the model has it again afterwards."""
    transformers: Any = import_module("transformers")
    sizes = {"n_embd": 12, "n_layer": 1, "n_head": 3, "n_positions": 16, "vocab_size": 29}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config)
    made = xg.trace(model, input_ids=torch.randint(0, 29, (2, 5)))
    assert made.proof.module
    assert model.config.use_cache


def test_reasons_are_those_of_fixed_sizes_where_free_ones_only_add_more() -> None:
    """Windows that do not cover a free axis hide what is behind them."""

    def sorted_patches(x: Tensor) -> Tensor:
        y = torch.nn.functional.max_pool2d(x, 3, 2)
        return torch.sort(y.mean((2, 3)))[0] + torch.cummax(y, 1)[0].mean((2, 3))

    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(sorted_patches, torch.randn(2, 3, 9, 9))
    reasons = str(error.value)
    assert "aten.sort.default" in reasons
    assert "aten.cummax.default" in reasons
    assert "windows" not in reasons
