"""The tensors of a folder that transformers saves, where they are not those of the modules.

A saved folder has names and cuts of its own, such as one matrix for each expert. How transformers
gets from the modules to them is not read but tried, on the places of the numbers: each saved tensor
shows where in the modules its numbers are from.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from xg.diagnostics.lazy_dataclass import dataclass
from xg_torch.importing.archive import Array


@dataclass(frozen=True)
class SavedTensor:
    """A tensor of a folder: for each of its numbers the place in the module's tensor.

    A `whole` one is the module's tensor under another name.
    """

    name: str
    places: Array
    whole: bool


# By the names of modules' tensors; those that are not here are saved as they are.
SavedTensors: TypeAlias = Mapping[str, Sequence[SavedTensor]]


def saved_tensors(model: Any) -> SavedTensors:  # noqa: ANN401 - a model of transformers
    """The tensors that `save_pretrained` writes under other names, or cut in another way.

    There are none for a tensor of which a number is saved together with those of another.
    """
    loading: Any = import_module("transformers.core_model_loading")
    state: Mapping[str, Any] = model.state_dict()
    plain = loading.revert_weight_conversion(model, {k: x.to("meta") for k, x in state.items()})
    others = [k for k, x in state.items() if k not in plain or plain[k].shape != x.shape]
    places, starts = _places([tuple(state[name].shape) for name in others])
    found = loading.revert_weight_conversion(model, dict(zip(others, places, strict=True)))
    saved: dict[str, list[SavedTensor]] = {name: [] for name in others}
    mixed: set[str] = set()
    for name, tensor in found.items():
        numbers: Array = tensor.numpy()
        first, last = (bisect_right(starts, int(end)) - 1 for end in (numbers.min(), numbers.max()))
        whole = np.array_equal(numbers, places[first].numpy())
        saved[others[first]].append(SavedTensor(name, numbers - starts[first], whole))
        mixed |= set(others[first : last + 1]) if first != last else set()
    return {name: [] if name in mixed else tensors for name, tensors in saved.items()}


def _places(shapes: Sequence[Sequence[int]]) -> tuple[list[Any], list[int]]:
    """Tensors in which every number is its own place in all of them, and where each starts."""
    import torch

    lengths = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    starts = [0, *accumulate(lengths)][:-1]
    return [
        torch.arange(start, start + length).reshape(tuple(shape))
        for shape, start, length in zip(shapes, starts, lengths, strict=True)
    ], starts
