"""`Model` with parametrizations of torch, and with modules of others around its blocks."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn.utils import parametrize

import xg

DIAGRAM = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
SIZES = {"V": 5, "D": 6, "N_H": 3, "N_L": 2, "D_ff": 7, "S_max": 4}
IDS = torch.arange(6).reshape(2, 3) % 5
PLACES = {"attn.W_Q": 0, "ffn.W_up": 1}  # of blocks in a layer, which runs as one step


class Added(torch.nn.Module):
    """A product of two narrow matrices, added to a parameter: LoRA."""

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.A = torch.nn.Parameter(torch.randn(rows, 2, generator=draw, dtype=torch.float64))
        self.B = torch.nn.Parameter(torch.randn(2, columns, generator=draw, dtype=torch.float64))

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + 0.1 * self.A @ self.B


class Around(torch.nn.Module):
    """A module around a block that changes a parameter during a call, as PEFT's does."""

    def __init__(self, block: torch.nn.Module, name: str, added: Added) -> None:
        super().__init__()
        self.block, self.name, self.added = block, name, added

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        owner = self.block.block if isinstance(self.block, Around) else self.block
        parametrize.register_parametrization(owner, self.name, self.added)
        try:
            return self.block(*args)
        finally:
            if parametrize.is_parametrized(owner, self.name):
                parametrize.remove_parametrizations(owner, self.name, leave_parametrized=False)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return xg.compile(DIAGRAM, sizes=SIZES).load("torch")


def added_to(model: Any, place: str, layer: int) -> tuple[Any, str, Added]:  # noqa: ANN401
    call, name = place.split(".")
    block = getattr(model.layers[layer], call)
    return block, name, Added(*getattr(block, name).shape, seed=layer)


def loss_of(model: Any) -> torch.Tensor:  # noqa: ANN401
    return model(IDS, (IDS + 1) % 5)["loss"]


def in_torch(block: Any, name: str, added: Added, _: Any) -> None:  # noqa: ANN401
    parametrize.register_parametrization(block, name, added)


def in_a_module(block: Any, name: str, added: Added, layer: Any) -> None:  # noqa: ANN401
    (call,) = [call for call, part in layer.named_children() if part is block]
    setattr(layer, call, Around(Around(block, name, added), name, added))  # as PEFT nests several


@pytest.mark.parametrize("wrap", [in_torch, in_a_module])
def test_adapters_in_a_layer_compute_and_learn(module: ModuleType, wrap: Any) -> None:  # noqa: ANN401
    times = 1 if wrap is in_torch else 2
    model, twin = (module.Model(0, torch.float64).eval() for _ in range(2))
    adapters: dict[str, Added] = {}
    for place, layer in PLACES.items():
        block, name, adapters[place] = added_to(model, place, layer)
        wrap(block, name, adapters[place], model.layers[layer])
        merged, *_ = added_to(twin, place, layer)
        with torch.no_grad():
            weight = getattr(merged, name)
            weight += times * (adapters[place](weight) - weight)
    loss, expected = loss_of(model), loss_of(twin)
    torch.testing.assert_close(loss, expected, rtol=1e-13, atol=0)
    loss.backward()
    expected.backward()
    for place, layer in PLACES.items():
        block, name, _ = added_to(twin, place, layer)
        dW, added = getattr(block, name).grad, adapters[place]
        assert dW.abs().max() > 1e-4
        torch.testing.assert_close(added.A.grad, 0.1 * times * dW @ added.B.T)
        torch.testing.assert_close(added.B.grad, 0.1 * times * added.A.T @ dW)


def test_a_module_around_a_block_leaves_it_as_it_was(module: ModuleType) -> None:
    model = module.Model(0, torch.float64).eval()
    before, names = loss_of(model), list(model.state_dict())
    block, name, added = added_to(model, "attn.W_Q", 0)
    model.layers[0].attn = Around(block, name, added)
    assert not torch.equal(loss_of(model), before)
    model.layers[0].attn = block
    assert torch.equal(loss_of(model), before)
    assert sorted(model.state_dict()) == sorted(names)
    assert "forward" not in vars(block)


def test_a_forward_that_others_have_set_on_a_block_stays(module: ModuleType) -> None:
    model = module.Model(0, torch.float64).eval()
    block, name, added = added_to(model, "attn.W_Q", 0)
    block.forward = own = block.forward
    model.layers[0].attn = Around(block, name, added)
    loss_of(model)
    assert vars(block)["forward"] is own


def test_a_module_without_the_block_is_refused(module: ModuleType) -> None:
    model = module.Model()
    model.layers[1].ffn = torch.nn.Linear(6, 6)
    with pytest.raises(ValueError, match=r"layers\.1\.ffn is to be a block"):
        loss_of(model)
