"""BN in training and in evaluation, and the running statistics that training moves: as torch's."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from backends import forms_of_code
from numpy.typing import NDArray
from tier import some
from torch import nn

import xg
from xg.codegen.backend import backends
from xg_runtime.batches import ArraySource
from xg_runtime.config import TrainConfig, optimizer_of, schedule_of
from xg_runtime.gradcheck import check_module
from xg_runtime.ranks import simulate
from xg_runtime.ranks.mesh import current
from xg_runtime.step import Split, Stepper

TEXT = """
dim B, H, W, C = 5, N_L = 2

block Layer(X [B, H, W, C]) -> Y [B, H, W, C] {
    param K [3, 3, C, C], γ [C] = ones, β [C] = zeros, μ [C] = zeros frozen, v [C] = ones frozen

    X -> conv[H, W](K, pad=1) -> BN(γ, β, μ, v, eps=0.01, momentum=0.3) -> ReLU -> ⊕<-X : Y
}

block Net(X [B, H, W, C], T [B, H, W, C]) -> loss [] {
    param μ [C] = zeros frozen, v [C] = ones frozen

    X -> N_L × Layer as layers -> Layer as last -> BN(mean=μ, variance=v) : Y
    Y, T -> MSE : loss
}

mesh N_D = 2

plan DP of Net {
    X [B/N_D, H, W, C]
    T [B/N_D, H, W, C]
}

plan Again of Net {
    layers again
}
"""
SHAPE = (4, 5, 4, 6)  # torch's: channels come second
Arrays = dict[str, NDArray[Any]]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(5, 5, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(5, eps=0.01, momentum=0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x))) + x


class Net(nn.Sequential):
    """The same in torch, with numbers of its own in every table."""

    def __init__(self) -> None:
        super().__init__(*(Layer() for _ in range(3)), nn.BatchNorm2d(5, affine=False))
        generator = torch.Generator().manual_seed(0)
        self.double()
        for tensor in (*self.parameters(), *self.buffers()):
            if tensor.is_floating_point():
                tensor.data.uniform_(0.4, 1.6, generator=generator)
                tensor.data /= 30 if tensor.ndim == 4 else 1  # sums of 45

    def arrays(self, *, gradients: bool = False) -> Arrays:
        """Parameters, or their gradients, by their names in the diagram."""
        names = {"conv.weight": "K", "norm.weight": "gamma", "norm.bias": "beta"}
        names |= {"running_mean": "mu", "running_var": "v"}
        names |= {f"norm.{name}": short for name, short in names.items() if "running" in name}
        paths = {"0": "layers.0.", "1": "layers.1.", "2": "last.", "3": ""}
        found: Arrays = {}
        tensors: dict[str, Any] = dict(self.named_parameters())
        tensors |= {} if gradients else dict(self.named_buffers())
        for name, tensor in tensors.items():
            path, _, own = name.partition(".")
            if own in names:
                array = (tensor.grad if gradients else tensor).detach().numpy().copy()
                turned = array.transpose(2, 3, 1, 0) if array.ndim == 4 else array
                found[paths[path] + names[own]] = turned
        return found


@cache
def compiled(plan: str | None = None) -> xg.Program:
    return xg.compile(source=TEXT, plan=plan)


@cache
def case(*, training: bool) -> tuple[Arrays, Arrays, float, Arrays, Arrays]:
    """Parameters and inputs; torch's loss, gradients, and parameters afterwards."""
    model, draw = Net().train(training), np.random.default_rng(1)
    x, t = (draw.standard_normal(SHAPE) for _ in range(2))
    before = model.arrays()
    given = torch.tensor(x, requires_grad=True)
    loss = ((model(given) - torch.tensor(t)) ** 2).mean()
    loss.backward()
    assert given.grad is not None
    inputs = {name: last(array) for name, array in (("X", x), ("T", t))}
    gradients = {**model.arrays(gradients=True), "X": last(given.grad.numpy())}
    return before, inputs, loss.item(), gradients, model.arrays()


def last(array: NDArray[Any]) -> NDArray[Any]:
    """Channels last."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1))


def distance(found: Arrays, expected: Arrays) -> float:
    return max(float(abs(found[name] - array).max()) for name, array in expected.items())


def statistics(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name.endswith(("mu", "v"))}


TURNS: list[tuple[str | None, bool]] = [
    (None, False),
    ("Again", True),
    ("Again", False),
    (None, True),
]
EVERY = [(b, form, *turn) for b in backends() for form in forms_of_code(b) for turn in TURNS]
# Daily with JAX, which compiles for long, each way of computing in one plan, by turns.
CASES = some(EVERY, lambda each: each[3] if each[0] == "jax" else each)


@pytest.mark.parametrize(("backend", "kernels", "plan", "training"), CASES)
def test_it_is_batch_norm_of_torch(
    backend: str, kernels: bool, plan: str | None, training: bool
) -> None:
    before, inputs, loss, gradients, after = case(training=training)
    module: Any = compiled(plan).on_arrays(backend, kernels=kernels)
    outputs, saved = module.forward(before, inputs, seed=3 if training else None)
    moved = module.moved(before, saved)
    found = module.backward(before, saved, {"loss": np.ones(())})
    assert abs(float(outputs["loss"]) - loss) < 1e-10
    assert distance(found, gradients) < 1e-10
    assert set(found) == set(gradients) | {"T"}
    assert set(moved) == set(statistics(before))
    assert distance(moved, statistics(after)) < 1e-12
    assert (distance({n: before[n] for n in moved}, moved) > 0.1) == training


@pytest.mark.parametrize("kernels", [False, True], ids=["readable", "kernels"])
def test_a_model_is_in_training_as_torch_says(kernels: bool) -> None:
    before, inputs, loss, gradients, after = case(training=True)
    made: Any = compiled().load("torch", kernels=kernels)
    model = made.Model(dtype=torch.float64)
    model.load_state_dict({name: torch.tensor(array) for name, array in before.items()})
    x, t = (torch.tensor(inputs[name]) for name in ("X", "T"))
    found = model(x, t)["loss"]
    found.backward()
    now = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    assert abs(found.item() - loss) < 1e-10
    assert distance(now, after) < 1e-12
    assert (
        distance(
            {n: p.grad.numpy() for n, p in model.named_parameters() if p.requires_grad},
            {n: a for n, a in gradients.items() if n != "X"},
        )
        < 1e-10
    )
    model.eval()(x, t)["loss"].backward()
    assert distance({n: tensor.numpy() for n, tensor in model.state_dict().items()}, after) < 1e-12


def test_two_batches_before_a_backward_pass_move_them_twice() -> None:
    """Statistics are in place of the earlier ones, and autograd does not mind."""
    made: Any = compiled().load("torch")
    model = made.Model(dtype=torch.float64)
    x = torch.randn(2, 4, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    first = model(x, x)["loss"]
    once = model.state_dict()["last.v"].clone()
    (first + model(2 * x, x)["loss"]).backward()
    assert not torch.equal(once, model.state_dict()["last.v"])


def test_gradients_without_a_seed_are_those_of_the_running_statistics() -> None:
    before, inputs, *_ = case(training=False)
    module = xg.compile(source=TEXT, sizes={"C": 3}).on_arrays("numpy")
    params = {n: a[..., -3:, -3:] if a.ndim == 4 else a[-3:] for n, a in before.items()}
    small = {name: array[:2, :2, :4, -3:] for name, array in inputs.items()}
    frozen = statistics(params)
    assert check_module(module, params, small, frozen=frozen, dropout=None).passed
    assert not check_module(module, params, small, dropout=None).passed  # they do count


def test_ranks_that_share_a_batch_take_the_statistics_of_all_of_it() -> None:
    before, inputs, loss, gradients, after = case(training=True)
    module: Any = compiled("DP").on_arrays("numpy")
    halves = [{n: array[2 * r : 2 * r + 2] for n, array in inputs.items()} for r in range(2)]

    def run() -> tuple[float, Arrays, Arrays]:
        part = halves[current().rank("N_D")]
        outputs, saved = module.forward(before, part, seed=3)
        moved = module.moved(before, saved)
        return float(outputs["loss"]), moved, module.backward(before, saved, {"loss": np.ones(())})

    for rank, (found, moved, slopes) in enumerate(simulate({"N_D": 2}, run)):
        assert abs(found - loss) < 1e-10
        assert distance(moved, statistics(after)) < 1e-12
        wanted = gradients | {"X": gradients["X"][2 * rank : 2 * rank + 2]}
        assert distance(slopes, wanted) < 1e-10


def test_a_model_on_ranks_moves_them_too() -> None:
    before, inputs, loss, _, after = case(training=True)
    made: Any = compiled("DP").load("torch", kernels=True)

    def run() -> tuple[float, Arrays]:
        model = made.Model(dtype=torch.float64)
        model.load_state_dict({name: torch.tensor(array) for name, array in before.items()})
        rows = slice(2 * current().rank("N_D"), 2 * current().rank("N_D") + 2)
        found = model(*(torch.tensor(inputs[name][rows]) for name in ("X", "T")))["loss"]
        found.backward()
        return found.item(), {n: tensor.numpy() for n, tensor in model.state_dict().items()}

    for found, now in simulate({"N_D": 2}, run):
        assert abs(found - loss) < 1e-10
        assert distance(now, after) < 1e-12


@pytest.mark.parametrize("count", [1, 2], ids=["whole", "in two parts"])
def test_a_step_of_training_moves_them_by_each_part_of_a_batch(count: int) -> None:
    before, inputs, *_ = case(training=True)
    module: Any = compiled().on_arrays("torch")
    source = ArraySource(inputs, frozenset(inputs), 4, "")
    split = Split(count, frozenset(inputs))
    config, frozen = TrainConfig(steps=1), list(statistics(before))
    rule, rate = optimizer_of(config), schedule_of(config)
    stepper = Stepper(
        module, source, rule, rate, "loss", limit=None, seed=5, split=split, frozen=frozen
    )
    params = {name: array.copy() for name, array in before.items()}
    stepper.step(params, rule.slots({n: a for n, a in params.items() if n not in frozen}), 0)
    wanted = dict(before)
    for part, _ in split.parts(source.batch(0)):
        _, saved = module.forward(before, part, seed=1)
        wanted |= module.moved(wanted, saved)
    assert distance(params, statistics(wanted)) < 1e-12
    assert distance(statistics(before), statistics(params)) > 0.1
