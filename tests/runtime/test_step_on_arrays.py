"""The step of a torch module on arrays: parameters that a module lays out are laid out once."""

from __future__ import annotations

import numpy as np
import torch

from xg_runtime.tensors import StepOnArrays, Tensors


class Plain:
    """A step that gives its parameter; its cache has the sizes that it is given."""

    def empty_cache(self, params: Tensors, **sizes: int) -> Tensors:
        del params
        return {name: torch.tensor(size) for name, size in sizes.items()}

    def step(self, params: Tensors, cache: Tensors, inputs: Tensors) -> tuple[Tensors, Tensors]:
        del inputs
        return {"Z": params["w"]}, cache


class Doubling(Plain):
    """The same with parameters to be prepared: they are twice as large then."""

    def __init__(self) -> None:
        self.asked = 0

    def prepared(self, params: Tensors) -> Tensors:
        self.asked += 1
        return {name: 2 * tensor for name, tensor in params.items()}


def test_prepared_parameters_stay() -> None:
    module = Doubling()
    on_arrays, params = StepOnArrays(module), {"w": np.ones(2)}
    cache = on_arrays.empty_cache(params)
    for _ in range(3):
        outputs, cache = on_arrays.step(params, cache, {})
        assert outputs["Z"].tolist() == [2, 2]
    assert module.asked == 1
    outputs, _ = on_arrays.step({"w": np.full(2, 3.0)}, cache, {})
    assert outputs["Z"].tolist() == [6, 6]
    assert module.asked == 2


def test_others_share_their_memory() -> None:
    on_arrays, params = StepOnArrays(Plain()), {"w": np.ones(2)}
    params["w"][:] = 5
    outputs, _ = on_arrays.step(params, {}, {})
    assert outputs["Z"].tolist() == [5, 5]
    params["w"][:] = 7
    assert on_arrays.step(params, {}, {})[0]["Z"].tolist() == [7, 7]


def test_an_empty_cache_has_the_sizes_that_are_given() -> None:
    assert StepOnArrays(Plain()).empty_cache({}, B=2) == {"B": torch.tensor(2)}
