import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xg_runtime.module import Arrays
from xg_runtime.optim import SGD, Adam, AdamW, Optimizer, Schedule, clip, global_norm

STEPS = 25


def values(seed: int, dtype: str = "float64") -> Arrays:
    draw = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {"W": (5, 3), "b": (3,), "s": ()}
    return {name: np.asarray(draw.standard_normal(shape), dtype) for name, shape in shapes.items()}


def trained(optimizer: Optimizer, dtype: str = "float64", first: int = 0) -> Arrays:
    params = values(0, dtype)
    slots = optimizer.slots(params)
    for step in range(first, first + STEPS):
        optimizer.update(params, values(step + 1, dtype), slots, 0.1 / (step + 1), step)
    return params


def torch_trained(make: Callable[[Any, list[Any]], Any]) -> Arrays:
    """Train with torch.optim; only matrices decay, by two groups."""
    import torch

    params = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in values(0).items()}
    groups = [{"params": [params["W"]]}, {"params": [params["b"], params["s"]], "weight_decay": 0}]
    optimizer = make(torch.optim, groups)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 / (step + 1)
        for name, gradient in values(step + 1).items():
            params[name].grad = torch.tensor(gradient)
        optimizer.step()
    return {name: param.detach().numpy() for name, param in params.items()}


CASES: list[tuple[Optimizer, Callable[[Any, list[Any]], Any]]] = [
    (SGD(), lambda optim, groups: optim.SGD(groups, lr=1)),
    (SGD(0.9), lambda optim, groups: optim.SGD(groups, lr=1, momentum=0.9)),
    (Adam(0.8, 0.95, 1e-6), lambda o, groups: o.Adam(groups, betas=(0.8, 0.95), eps=1e-6)),
    (AdamW(weight_decay=0.3), lambda o, groups: o.AdamW(groups, weight_decay=0.3)),
]


@pytest.mark.parametrize(("ours", "theirs"), CASES, ids=["sgd", "momentum", "adam", "adamw"])
def test_steps_are_those_of_torch(ours: Optimizer, theirs: Callable[[Any, list[Any]], Any]) -> None:
    expected = torch_trained(theirs)
    found = trained(ours)
    for name, value in expected.items():
        assert np.abs(found[name] - value).max() < 1e-12
        assert np.abs(values(0)[name] - value).max() > 1e-3  # it has moved


def test_a_sabotaged_optimizer_is_seen() -> None:
    expected = torch_trained(CASES[2][1])
    found = trained(Adam(0.8, 0.951, 1e-6))
    assert np.abs(found["W"] - expected["W"]).max() > 1e-6
    assert np.abs(trained(CASES[2][0], first=1)["W"] - expected["W"]).max() > 1e-6


def test_only_matrices_decay() -> None:
    decayed, plain = trained(AdamW(weight_decay=0.5)), trained(Adam())
    assert not np.array_equal(decayed["W"], plain["W"])
    assert np.array_equal(decayed["b"], plain["b"])


@pytest.mark.parametrize("optimizer", [SGD(0.9), Adam(), AdamW()])
def test_types_stay(optimizer: Optimizer) -> None:
    assert {value.dtype.name for value in trained(optimizer, "float32").values()} == {"float32"}


def test_slots_are_flat_and_named() -> None:
    assert sorted(Adam().slots(values(0))) == ["m/W", "m/b", "m/s", "v/W", "v/b", "v/s"]
    assert sorted(SGD(0.9).slots(values(0))) == ["velocity/W", "velocity/b", "velocity/s"]
    assert SGD().slots(values(0)) == {}


def test_gradients_are_not_written_to() -> None:
    shared = np.ones(3)
    for optimizer in (SGD(), SGD(0.9), Adam(), AdamW()):
        params: Arrays = {"a": np.zeros(3), "b": np.zeros(3)}
        optimizer.update(params, {"a": shared, "b": shared}, optimizer.slots(params), 0.1, 0)
        assert shared.tolist() == [1, 1, 1]
        assert np.array_equal(params["a"], params["b"])


def test_the_warm_up_rises_to_the_peak() -> None:
    rates = [Schedule("constant", 1.0, 100, warmup=4).rate(step) for step in range(6)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_linear_decay_ends_at_its_part() -> None:
    schedule = Schedule("linear", 2.0, 10, warmup=2, final=0.5)
    assert schedule.rate(2) == 2.0
    assert schedule.rate(6) == pytest.approx(1.5)
    assert schedule.rate(10) == schedule.rate(99) == pytest.approx(1.0)


def test_cosine_decay_is_that_of_torch() -> None:
    import torch

    param = torch.nn.Parameter(torch.zeros(1))
    optimizer: Any = torch.optim.SGD([param], lr=0.3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.03)
    schedule = Schedule("cosine", 0.3, 50, final=0.1)
    for step in range(50):
        assert schedule.rate(step) == pytest.approx(cosine.get_last_lr()[0], rel=1e-12)
        optimizer.step()
        cosine.step()


@pytest.mark.parametrize("limit", [0.5, 2.0, 100.0])
def test_clipping_is_that_of_torch(limit: float) -> None:
    import torch

    gradients = values(3)
    params = [torch.nn.Parameter(torch.zeros(g.shape).double()) for g in gradients.values()]
    for param, gradient in zip(params, gradients.values(), strict=True):
        param.grad = torch.tensor(gradient)
    norm = torch.nn.utils.clip_grad_norm_(params, limit)
    assert global_norm(gradients) == pytest.approx(float(norm), rel=1e-14)
    clipped = clip(gradients, global_norm(gradients), limit)
    for param, found in zip(params, clipped.values(), strict=True):
        assert param.grad is not None
        assert np.abs(param.grad.numpy() - found).max() < 1e-15


def test_the_norm_of_large_float32_is_finite() -> None:
    assert global_norm({"W": np.full((2, 2), 1e25, np.float32)}) == pytest.approx(2e25)
    assert math.isnan(global_norm({"W": np.array([1.0, np.nan])}))
    assert global_norm({}) == 0
