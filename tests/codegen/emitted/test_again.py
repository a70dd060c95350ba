"""Backward passes that recompute forward steps: the same bits, with less memory kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import numpy as np
import pytest
import torch
from backends import forms_of_code, in_words_alone
from library import shipped
from tier import THOROUGH

import xg
from xg.codegen.backend import backends
from xg.driver import View
from xg.verify.reference.interpret import initial

SIZES = {"B": 2, "S": 4, "D": 8, "N_L": 2, "N_H": 2, "V": 12, "S_max": 8}
NUMBERS = {**SIZES, "D_h": 4, "D_ff": 32, "N_D": 1}
PLANS = ("Checkpoints", "Scores", "Scores × Checkpoints")


@cache
def compiled(plan: str | None) -> xg.Program:
    return xg.compile(shipped("transformer"), sizes=SIZES, plan=plan)


def kept(saved: object) -> Iterator[int]:
    """The bytes of every array that a forward pass kept."""
    if isinstance(saved, list | tuple):
        for part in cast("list[object]", saved):
            yield from kept(part)
    elif hasattr(saved, "nbytes"):
        yield int(getattr(saved, "nbytes"))  # noqa: B009 - of any backend's arrays
    elif hasattr(saved, "__dict__"):
        yield from kept(list(vars(saved).values()))


# Daily without those whose modules differ from the first one's in words alone.
TRIED = [name for name in backends() if THOROUGH or name not in in_words_alone()]


@pytest.mark.parametrize(
    ("backend", "kernels"), [(name, form) for name in TRIED for form in forms_of_code(name)]
)
def test_the_same_bits_from_less_that_is_kept(backend: str, kernels: bool) -> None:
    one = compiled(None)
    params = initial(one.graphs, 1)
    draw = np.random.default_rng(0)
    inputs = {name: draw.integers(0, 12, (2, 4)) for name in ("ids", "t")}
    if backend == "jax":
        params = {name: array.astype(np.float32) for name, array in params.items()}
    ones: Any = np.ones((), next(iter(params.values())).dtype)
    if backend == "torch":
        tensors: Any = [
            {n: torch.as_tensor(a) for n, a in each.items()} for each in (params, inputs)
        ]
        (params, inputs), ones = tensors, torch.ones((), dtype=torch.float64)
    results: dict[str, tuple[Any, Any, int]] = {}
    for plan in (None, *(PLANS[2:] if backend == "jax" else PLANS)):  # jax compiles for seconds
        module: Any = compiled(plan).load(backend, kernels=kernels)
        outputs, saved = module.forward(params, inputs, seed=3)
        results[str(plan)] = (
            outputs,
            module.backward(params, saved, {"loss": ones}),
            sum(kept(saved)),
        )
    outputs, gradients, bytes_ = results.pop("None")
    for plan, (others, theirs, less) in results.items():
        assert less < bytes_ or (kernels and plan == "Scores"), plan
        assert np.array_equal(np.asarray(outputs["loss"]), np.asarray(others["loss"]))
        for name, gradient in gradients.items():
            assert np.array_equal(np.asarray(gradient), np.asarray(theirs[name])), (plan, name)


def test_what_is_kept_is_what_the_analysis_says() -> None:
    plain, again = (
        xg.compile(shipped("transformer"), plan=plan) for plan in ("DP", "DP × Checkpoints")
    )
    per_block = next(each for each in plain.cost().policies if each.name == "per block")
    assert again.cost().total.saved == per_block.saved
    computed = [each.cost().total.backward.evaluate(NUMBERS) for each in (plain, again)]
    # The analysis runs a whole layer again; its last steps, which nothing differentiates, are not.
    most = per_block.again.evaluate(NUMBERS)
    assert computed[0] + 0.95 * most < computed[1] < computed[0] + most


@pytest.mark.parametrize("view", ["forward", "backward", "overview"])
def test_a_plan_without_a_mesh_is_drawn(view: View) -> None:
    program = xg.compile(shipped("transformer"), plan="Checkpoints")
    picture = program.render(view, "svg").decode("utf-8")
    assert "layers computed again" in picture
    assert "Node i" not in picture


CHOSEN = """\
dim B = 4, N = 6, k = 2
mesh N_D = 2
block Best(X [B, N], V [B, N]) -> Y [B, k] {
    X -> tanh -> topk(k)       : p [B, k], e [B, k] in N
    V -> gather[N]<-e -> ⊕<-p  : Y
}
block Net(X [B, N], V [B, N]) -> Y [B, k] {
    X, V -> Best as best -> tanh : Y
}
plan DP of Net {
    X, V [B/N_D, N]
    best again
}
"""


def test_a_step_runs_again_as_it_ran_before() -> None:
    """By the same function, of whose results the backward pass reads one."""
    source = xg.compile(source=CHOSEN, block="Net", plan="DP").source()
    assert source.count("p, e = topk(") == source.count("_, e = topk(") == 1
