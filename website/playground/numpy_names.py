"""NumPy's names for the explorer, where there is no NumPy: its tape computes nothing.

A run of the page is written down with slots in the place of arrays, and the page computes the
numbers. So three functions have to reach the slots, and every other only has to have its name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

NAMES = ("numpy", "numpy.typing")


@contextmanager
def in_place_of_numpy() -> Generator[None]:
    """Let modules that import NumPy be imported; afterwards it is as missing as before."""
    there = {name: sys.modules.get(name) for name in NAMES}
    sys.modules.update({"numpy": _numpy(), "numpy.typing": _typing()})
    try:
        yield
    finally:
        for name, module in there.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _numpy() -> ModuleType:
    numpy: Any = ModuleType("numpy")
    numpy.float64, numpy.floating = float, list
    numpy.isfinite = math.isfinite
    numpy.dtype = lambda kind: SimpleNamespace(type=kind)  # pyright: ignore[reportUnknownLambdaType]
    numpy.zeros = lambda shape: SimpleNamespace(shape=shape, dtype=numpy.dtype(float))  # pyright: ignore[reportUnknownLambdaType]
    for name in ("zeros_like", "take", "stack"):
        setattr(numpy, name, _written_down())
    numpy.__getattr__ = _unable
    return numpy


def _typing() -> ModuleType:
    typing: Any = ModuleType("numpy.typing")
    typing.NDArray, typing.DTypeLike = list, object
    return typing


def _written_down() -> Callable[..., object]:
    """A function that its first argument, or the first of these, answers as NumPy asks arrays."""

    def function(first: Any, *rest: object) -> object:  # noqa: ANN401 - a slot, or several
        slot: Any = first if hasattr(first, "__array_function__") else first[0]
        return slot.__array_function__(function, (), (first, *rest), {})

    return function


def _unable(name: str) -> Callable[..., object]:
    if name.startswith("__"):
        raise AttributeError(name)

    def function(*_: object, **__: object) -> object:
        raise TypeError(f"numpy.{name} was asked to compute, and there is no NumPy here")

    return function
