"""Calls that are arithmetic and layouts in the file: outputs and gradients are the model's."""

# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch
from importing.agreement import compare
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that torch's documentation gives it

import xg
from xg_torch.importing import Imported

Map = Callable[[Tensor], Tensor]
X = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(0)).double()
PICTURE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1)).double()


class Layer(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, then: Map) -> None:
        super().__init__()
        self.inner, self.then = nn.Linear(6, 6), then

    def forward(self, x: Tensor) -> Tensor:
        return self.then(self.inner(x))


def agree(model: nn.Module, x: Tensor, *others: tuple[int, ...]) -> str:
    """Import a model, and compare it with itself, also at inputs of other shapes."""
    torch.manual_seed(2)
    model = model.double().eval()
    made = xg.trace(model, x)
    assert made.proof.module
    for shape in ((tuple(x.shape)), *others):
        outputs, gradients = compare(model, made, (torch.randn(shape).double(),), {**made.params})
        assert outputs < 1e-10
        assert gradients < 1e-8
    return made.text


SHIFT = [0.5, -1.0, 2.0, 0.25, 0.0, 1.5]
SCALE = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
FUNCTIONS: Final[dict[str, Map]] = {
    "softplus": lambda x: F.softplus(x, 2.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 0.7),
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.5),
    "relu6": lambda x: F.relu6(4 * x),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.25),
    "hardswish": lambda x: F.hardswish(3 * x),
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "expm1": torch.expm1,
    "log1p": lambda x: torch.log1p(x.abs()),
    "reciprocal": lambda x: torch.reciprocal(x.abs() + 1),
    "maximum": lambda x: torch.maximum(x, x.sin()),
    "minimum": lambda x: torch.min(x, x.cos()),
    "lerp": lambda x: torch.lerp(x, x.sin(), 0.3),
    "addcmul": lambda x: torch.addcmul(x, x.sin(), x, value=0.5),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x),
    "between": lambda x: x.masked_fill(x <= 0.2, 0.5) * (x >= -0.1).to(x.dtype),
    "equal": lambda x: torch.where(x.sign() == 1, x, x.sin()) + torch.where(x.floor() != 0, x, 1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "log_softmax_inner": lambda x: F.log_softmax(x, 1),
    "softmax_inner": lambda x: x.softmax(1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "norm": lambda x: x.norm(dim=-1) + x.norm(p=1, dim=-1),
    "cosine": lambda x: F.cosine_similarity(x, x.sin(), dim=-1),
    "var": lambda x: x.var(-1) + x.std(-1, unbiased=False),
    "standardize": lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0)[:, None] + 1),
    "max_inner": lambda x: x.max(1).values + x.amin(1),
    "max_last": lambda x: x.max(-1).values + x.amax(-1),
    "steps": lambda x: x * (x.sign() + x.floor() + (3 * x).round()) + x.ceil(),
    "cumsum": lambda x: x.cumsum(1) * x.sin().cumsum(-1),
    "argmax": lambda x: F.one_hot(x.argmax(-1), 6).to(x.dtype) * x,
    "argmin": lambda x: F.one_hot(x.min(-1).indices, 6).to(x.dtype) * x,
    "argmax_inner": lambda x: (x * F.one_hot(x.argmax(2), 6)).sum(1, keepdim=True) + x,
    "squeeze": lambda x: x[:, :1].squeeze(),
    "transposed": lambda x: x.mT,
    "einsum": lambda x: torch.einsum("bsd,btd->bst", x, x.sin()),
    "baddbmm": lambda x: torch.baddbmm(x, x @ x.mT, x.sin()),
    "constants": lambda x: (x - torch.tensor(SHIFT)) / torch.tensor(SCALE),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_torch(name: str) -> None:
    agree(Layer(FUNCTIONS[name]), X, (4, 7, 6))


# Numbers that no drawn one is, at which a function is differentiable, or a bound acts.
BEYOND: Final[dict[str, tuple[Map, float]]] = {
    "elu": (F.elu, 0.0),
    "celu": (lambda x: F.celu(x, 1.5), 0.0),
    "hardtanh": (lambda x: F.hardtanh(x, 0.0, 20.0), 30.0),
    "clamp": (lambda x: x.clamp(0, 255), 300.0),
    "clamp_low": (lambda x: x.clamp(-1, 1), -1.0),
    "clamp_high": (lambda x: x.clamp(-1, 1), 1.0),
    "clamp_zero": (lambda x: x.clamp(min=0), 0.0),
    "clamp_only_high": (lambda x: x.clamp(max=2), 2.0),
    "where_zero": (lambda x: torch.where(x > 0, x, 0), 0.0),
    "relu6_low": (F.relu6, 0.0),
    "relu6_high": (F.relu6, 6.0),
    "hardtanh_low": (F.hardtanh, -1.0),
    "hardtanh_high": (F.hardtanh, 1.0),
    "hardswish_low": (F.hardswish, -3.0),
    "hardswish_high": (F.hardswish, 3.0),
    "hardsigmoid_low": (F.hardsigmoid, -3.0),
    "hardsigmoid_high": (F.hardsigmoid, 3.0),
    "max": (lambda x: x.max(-1, keepdim=True).values * x, 2.0),
    "min": (lambda x: x.min(1, keepdim=True).values * x, 2.0),
    "amax": (lambda x: x.amax(-1, keepdim=True) * x, 2.0),
    "max_of_all": (lambda x: x.max() * x, 2.0),
    "norm": (lambda x: x.norm(dim=-1, keepdim=True) + x, 0.0),
    "norm_1": (lambda x: x.norm(p=1, dim=-1, keepdim=True) + x, 0.0),
    "norm_inner": (lambda x: x.norm(dim=1, keepdim=True) + x, 0.0),
    "normalize": (lambda x: F.normalize(x, dim=-1), 0.0),
    "cosine": (lambda x: F.cosine_similarity(x, x + 1, dim=-1)[..., None] * x + x, 0.0),
    "std": (lambda x: x.std(-1, keepdim=True) + x, 0.5),
    "abs": (torch.abs, 0.0),
    "clamped_sigmoid": (lambda x: (1 / (1 + torch.exp(-x))).clamp(1e-6, 1 - 1e-6), 30.0),
    "threshold": (lambda x: F.threshold(x, 0.01, 0.0), 0.005),
    "log1p": (torch.log1p, 1e-18),
    "softplus": (F.softplus, -40.0),
    "log_sigmoid": (F.logsigmoid, 40.0),
    "hidden": (lambda x: x.masked_fill(x < 0, -torch.inf).softmax(-1), 1.0),
}


@pytest.mark.parametrize("name", BEYOND)
def test_functions_are_those_of_torch_where_no_number_is_drawn(name: str) -> None:
    function, number = BEYOND[name]
    found, gradient = at_number(xg.trace(function, X), number)
    x = torch.full((3, 5, 6), number, dtype=torch.float64, requires_grad=True)
    y = function(x)
    (expected,) = torch.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(found, y.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient, expected.numpy(), atol=1e-12)


def at_number(made: Imported, number: float) -> tuple[Any, Any]:
    """The output of a diagram where its input is one number, and the gradient of its sum."""
    program = xg.compile(source=made.text)
    module: Any = program.on_arrays()
    (name,) = program.inputs
    outputs, saved = module.forward(made.params, {name: np.full((3, 5, 6), number)})
    ((key, found),) = outputs.items()
    gradients = module.backward(made.params, saved, {key: np.ones((3, 5, 6))})
    return found, gradients[name]


def test_largest_numbers_without_a_gradient_are_written_plainly() -> None:
    text = agree(Layer(lambda x: x - x.max(-1, keepdim=True).values.detach()), X)
    assert "x - stop(max[D](x))" in text


def test_a_root_is_named_where_it_is_read_again() -> None:
    text = agree(Layer(lambda x: F.normalize(x, dim=-1)), X)
    assert "select(s > 0, sqrt(s), s)" in text
    assert "s = sum[D](x^2)" in text


def test_log_softmax_of_large_logits_is_exact_in_float32() -> None:
    x = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(3)) * 1e4
    made = xg.trace(lambda x: F.log_softmax(x, -1), x)
    module: Any = xg.compile(source=made.text).on_arrays()
    outputs, _ = module.forward({}, {"inputs_0": x.numpy()})
    (found,) = outputs.values()
    wanted = F.log_softmax(x.double(), -1).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_a_comparison_is_written_as_one() -> None:
    text = agree(Layer(lambda x: torch.where(x + 1 >= x.cos(), x.exp(), x)), X)
    assert "select(x + 1 >= cos(x), exp(x), x)" in text
    assert "select(0.5 > x, 0, x)" in agree(Layer(lambda x: x.masked_fill(x < 0.5, 0)), X)


def test_a_slope_of_prelu_is_taken_at_zero() -> None:
    _, gradient = at_number(xg.trace(nn.PReLU().double(), X), 0.0)
    np.testing.assert_allclose(gradient, np.full((3, 5, 6), 0.25))


def normalized(x: Tensor) -> Tensor:
    return F.instance_norm(x, torch.zeros(5), torch.ones(5), use_input_stats=True)


@pytest.mark.parametrize(
    ("function", "reason"),
    [(lambda x: x[..., :1].var(-1), "divides by 0"), (normalized, "statistics change as it runs")],
)
def test_what_no_diagram_says_is_refused(function: Map, reason: str) -> None:
    with pytest.raises(xg.DiagnosticError, match=reason):
        xg.trace(function, X.float())


LOSSES: Final[dict[str, Callable[..., Tensor]]] = {
    "mse": F.mse_loss,
    "mse_none": lambda x, y: F.mse_loss(x, y, reduction="none"),
    "l1": F.l1_loss,
    "l1_sum": lambda x, y: F.l1_loss(x, y, reduction="sum"),
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, beta=0.5),
    "huber": lambda x, y: F.huber_loss(x, y, delta=0.5),
    "bce": lambda x, y: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_torch(name: str) -> None:
    made = xg.trace(LOSSES[name], X, X.flip(1).contiguous())
    assert made.proof.module
    assert made.proof.worst < 1e-12


def mean_of_places(x: Tensor) -> Tensor:
    return x.mean((-2, -1))


class Rows(nn.Module):
    """Integers as rows with a single 1, and a linear layer of them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.inner(F.one_hot(ids, 6).to(self.inner.weight.dtype))


def test_integers_are_rows_with_a_single_one() -> None:
    model, ids = Rows().double(), torch.tensor([[0, 5, 2], [1, 3, 4]])
    made = xg.trace(model, ids)
    assert "ids -> onehot -> •<=W" in made.text
    outputs, gradients = compare(model, made, (ids,), {**made.params})
    assert outputs < 1e-10
    assert gradients < 1e-8


class Scaled(nn.Module):
    """A squeeze-excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(3, 1), nn.Linear(1, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))[..., None, None]


PICTURES: Final[dict[str, Callable[[], nn.Module]]] = {
    "group_norm": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)),
    "one_group": lambda: nn.GroupNorm(1, 3),
    "instance_norm": lambda: nn.InstanceNorm2d(3, affine=True),
    "pixel_shuffle": lambda: nn.Sequential(nn.Conv2d(3, 12, 1), nn.PixelShuffle(2)),
    "prelu": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(4), nn.PReLU()),
    "one_place": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 1)
    ),
    "scaled": Scaled,
}


@pytest.mark.parametrize("name", PICTURES)
def test_layers_of_pictures_are_those_of_torch(name: str) -> None:
    agree(PICTURES[name](), PICTURE)


@pytest.mark.parametrize(("inner", "outer"), [(6, 1), (1, 6), (1, 1)])
def test_a_linear_layer_may_have_a_width_of_one(inner: int, outer: int) -> None:
    agree(nn.Sequential(nn.Linear(inner, outer), nn.Sigmoid()), X[..., :inner], (4, 2, inner))


def test_dropout_may_be_in_place() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.1, inplace=True), nn.ReLU(inplace=True))
    assert "DO(0.1)" in agree(model, X)


def added_in_place(x: Tensor) -> Tensor:
    h = torch.relu(x)
    h += x
    return h


def test_a_gradient_that_torch_cannot_compute_is_said() -> None:
    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(Layer(added_in_place), X.float())
    (only,) = error.value.diagnostics
    assert only.code == "XG0910"
    assert "modified by an inplace operation" in only.message


def test_tables_that_a_model_keeps_are_frozen() -> None:
    text = agree(Layer(FUNCTIONS["constants"]), X)
    assert "[D] = ones frozen" in text


def ask(of: Any) -> str:  # noqa: ANN401 - a function of tensors
    with pytest.raises(xg.DiagnosticError) as error:
        xg.trace(Layer(of), X)
    return str(error.value)


def test_what_no_arithmetic_says_is_refused() -> None:
    assert "it computes with integers" in ask(lambda x: x.max(-1).indices + x[..., 0])
    assert "it computes with integers" in ask(lambda x: x.argmax(-1) / 2)
    assert "the places of all axes as one" in ask(lambda x: x[0, 0].argmax())
    assert "it rounds to decimals" in ask(lambda x: x.round(decimals=2))
    assert "its norm is of order 3" in ask(lambda x: x.norm(p=3, dim=-1))
    assert "rounding_mode=floor" in ask(lambda x: torch.div(x, 0.3, rounding_mode="floor"))
