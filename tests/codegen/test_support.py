"""Functions that modules of several backends have, each in its own words: they give the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from xg.codegen.numpy import support as of_numpy
from xg.codegen.numpy.dialect import in_numpy
from xg.codegen.torch import support as of_torch


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 6)])
def test_how_many_equal_ids_come_before_each(shape: tuple[int, ...]) -> None:
    ids = np.random.default_rng(1).integers(0, 3, shape)
    expected = np.array(
        [[int(np.sum(row[:place] == one)) for place, one in enumerate(row)] for row in _rows(ids)]
    ).reshape(shape)
    assert expected.max() > 1
    assert np.array_equal(of_numpy.earlier(ids), expected)
    assert np.array_equal(of_torch.earlier(torch.as_tensor(ids)).numpy(), expected)


def _rows(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    return ids.reshape(-1, ids.shape[-1])


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 6)])
def test_of_equal_numbers_the_first_is_at_the_top(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).integers(0, 4, shape).astype(float)
    expected = np.argsort(-x, axis=-1, kind="stable")[..., :3]
    assert np.array_equal(of_numpy.top(x, 3), expected)
    assert np.array_equal(of_torch.top(torch.as_tensor(x), 3).numpy(), expected)


def test_a_shared_kernel_is_said_in_numpy() -> None:
    source = (
        "z = (q @ k.mT).to(q.dtype)\ny = torch.zeros(n, device=q.device).amax(-1, keepdim=True)"
    )
    spelled = "z = q @ k.swapaxes(-1, -2)\ny = np.zeros(n).max(-1, keepdims=True)"
    assert in_numpy(source) == spelled
    assert (
        in_numpy("f(torch.cat(x.to(a), dim=0), x.numel())")
        == "f(np.concatenate(x, axis=0), x.size)"
    )


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("y = torch.index_put(x, i, v)", "index_put"),
        ("y = x.transpose(-1, -2)", "transpose"),  # takes all axes in NumPy
        ("y = x.std(dim=-1)", "std"),  # divides by another number in NumPy
    ],
)
def test_a_word_that_numpy_lacks_is_an_error(source: str, word: str) -> None:
    with pytest.raises(KeyError, match=word):
        in_numpy(source)


def test_numbers_are_drawn_where_a_seed_is() -> None:
    seed = torch.tensor(7, device="meta")
    assert of_torch.normal(seed, "a", (3,), 1.0).device.type == "meta"
    assert of_torch.uniform(seed, "a", (3,), 0.0, 1.0).device.type == "meta"
