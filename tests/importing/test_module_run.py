"""An import of a module in memory is compared with the module itself, and not its export alone."""

# pyright: reportUnknownMemberType=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

from typing import Any

import pytest
import torch
from importing.agreement import compare
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg
from xg_torch.importing import Imported, import_exported

X = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))


class Two(nn.Module):
    """Two linear layers, for models of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


def trace(model: nn.Module, *inputs: Tensor) -> Imported:
    made = xg.trace(model, *inputs)
    assert made.proof.module
    return made


def agree(model: nn.Module, *inputs: Tensor) -> Imported:
    """Import a model, and compare outputs and gradients with its own, at the sizes of inputs."""
    model = model.double()
    made = trace(model, *(each.double() for each in inputs))
    outputs, gradients = compare(model, made, [x.double() for x in inputs], dict(made.params))
    assert outputs < 1e-10
    assert gradients < 1e-8
    return made


def refusals(model: nn.Module) -> str:
    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(model, X)
    assert {each.code for each in error.value.diagnostics} == {"XG0909"}
    return str(error.value)


class NoGradient(Two):
    """A layer under `no_grad`, and inside it one under `enable_grad`."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = self.a(x)
            with torch.enable_grad():
                z = self.b(y)
            w = z * 2
        return self.b(w) + torch.relu(x)


class Detached(Two):
    """A straight-through estimator, and a detached layer."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        return y + (torch.tanh(3 * y) - y).detach() + self.b(x).detach()


@pytest.mark.parametrize("kind", [NoGradient, Detached])
def test_what_has_no_gradient_is_stopped(kind: type[Two]) -> None:
    made = agree(kind(), X)
    assert "stop" in made.text
    assert made.proof.worst < 1e-12


class FrozenParts(Two):
    """LoRA: a frozen fused projection beside a trained one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.qkv.requires_grad_(False)
        self.a.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v) + self.b(self.a(x))


def test_parameters_without_a_gradient_are_frozen() -> None:
    made = agree(FrozenParts(), X)
    frozen = {path for path, weight in made.sources.items() if weight.frozen}
    assert frozen == {"W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V", "W_a"}
    assert "W_a [D, D] frozen" in made.text


def test_a_model_may_be_frozen_as_a_whole() -> None:
    made = agree(nn.MultiheadAttention(4, 2, batch_first=True).requires_grad_(False), X, X, X)
    assert all(weight.frozen for weight in made.sources.values())


class Tripled(torch.autograd.Function):
    """A function whose gradient is another's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        return g * 3


class Doubled(Tripled):
    """A function whose gradient is its own."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        return g * 2


class Custom(Two):
    """A layer after a function of the user's own."""

    def __init__(self, function: type[Tripled]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.function.apply(self.a(x)))


def test_a_gradient_of_the_users_own_is_compared() -> None:
    agree(Custom(Doubled), X)
    told = refusals(Custom(Tripled))
    assert "the gradient of a.weight of the model differs from its torch.export program" in told
    assert "the backward of Tripled (test_module_run.py, line " in told


def doubled(gradient: Tensor) -> Tensor:
    return gradient * 2


class Hooked(Two):
    """A hook on what is between the layers."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        if y.requires_grad:
            y.register_hook(doubled)
        return self.b(y)


def test_hooks_change_gradients() -> None:
    assert "the gradient of a.bias" in refusals(Hooked())
    model = Two()
    model.a.weight.register_hook(doubled)
    assert "a hook of the parameter a.weight" in refusals(model)
    model = Two()
    model.a.register_full_backward_hook(lambda module, d_inputs, d_outputs: (d_inputs[0] * 2,))
    assert "a backward hook of a (Linear)" in refusals(model)


class Below(nn.Module):
    """Compute something else for short texts than for long ones."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self.bound = bound

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x) * 2 if x.shape[1] < self.bound else torch.relu(x)


@pytest.mark.parametrize(
    ("bound", "holds"), [(20, "S from 1 to 19."), (4, "S from 4 on."), (2, "S from 2 on.")]
)
def test_a_branch_on_a_size_is_said(bound: int, holds: str) -> None:
    made = trace(Below(bound), X)
    note = f"The diagram holds for {holds}"
    assert note in made.notes
    assert f"# {note}" in made.text


def test_a_range_of_the_export_is_said() -> None:
    shapes = ({1: torch.export.Dim("text", max=512)},)
    made = import_exported(torch.export.export(Two().eval(), (X,), dynamic_shapes=shapes))
    assert "The diagram holds for S from 2 to 512." in made.notes
    assert not made.proof.module


class Attention(Two):
    """Queries, keys and values from three inputs."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(self.a(query), self.b(key), value)


def test_one_tensor_given_twice_is_two_inputs() -> None:
    made = agree(Attention(), X, X, X)
    assert "block Attention(query [B, S, D], key [B, S, D], value [B, S, S_2])" in made.text
    named = xg.trace(Attention(), X, key=X, value=X)
    assert named.text == made.text


class Unread(Two):
    """Reads one of its inputs."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(self.a(x))


def test_an_input_that_is_not_read_is_said() -> None:
    made = xg.trace(Unread(), X, X)
    assert "The model does not read its input y; the diagram has none." in made.notes


class Dropping(Two):
    """Drops whatever the mode is, as `F.dropout` does by default."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.a(x), 0.5)


def test_nothing_is_dropped_where_models_are_compared() -> None:
    assert "DO(0.5)" in trace(Dropping(), X).text


class Rounding(Two):
    """Computes in float32, whatever its parameters are."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.a(x)).float() * 1.5


def test_a_model_that_rounds_is_compared_as_closely_as_that_lets_it() -> None:
    made = trace(Rounding(), X)
    assert made.proof.tolerance == 1e-5
    assert 1e-12 < made.proof.rounding < 1e-5
    assert made.proof.worst < 1e-12
