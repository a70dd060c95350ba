"""Inputs and cotangents drawn for a program that was given none: the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xg.ir.graph import Program
from xg.verify.reference.random import key, normal, words

Array = NDArray[Any]


def inputs(program: Program, seed: int) -> dict[str, Array]:
    """Nearly normal floats, and integers within their ranges; all sizes have numbers."""
    main = program.main
    numbers = main.sizes.bind(program.numbers)
    arrays: dict[str, Array] = {}
    for value in main.inputs:
        name, type_ = str(value.name), main.types[value]
        shape = tuple(dim.evaluate(numbers) for dim in type_.shape)
        if type_.range is None:
            arrays[name] = normal(key(seed, name), shape, 1.0)
        else:
            count = int(np.prod(shape, dtype=np.int64))
            drawn = words(key(seed, name), count) >> np.uint64(33)
            arrays[name] = (drawn.astype(np.int64) % type_.range.evaluate(numbers)).reshape(shape)
    return arrays


def cotangents(
    outputs: Mapping[str, Array], seed: int, names: Iterable[str] | None = None
) -> dict[str, Array]:
    """One for each float output, or for those named: 1 of a single number, drawn for others."""
    differentiated = outputs if names is None else names
    return {
        name: normal(key(seed, f"d{name}"), outputs[name].shape, 1.0)
        if outputs[name].shape
        else np.ones(())
        for name in differentiated
        if np.issubdtype(outputs[name].dtype, np.floating)
    }
