"""The backends to run tests for: every installed one, by the form of code that it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from xg.codegen.backend import Form, backends


def writing(form: Form) -> list[str]:
    """The names of those that write modules of a form."""
    return [name for name, backend in backends().items() if form in backend.forms]


def with_kernels() -> list[str]:
    """The names of those that have functions by hand."""
    return [name for name, backend in backends().items() if backend.parts.kernels]


def forms_of_code(backend: str) -> Sequence[bool]:
    """Whether code is to be fused, both ways for a backend that then has functions by hand."""
    return (False, True) if backend in with_kernels() else (False,)


def with_calls() -> list[str]:
    """The names of those that write calls in a way of their own, the first one included."""
    return [name for name in backends() if name not in in_words_alone()]


def in_words_alone() -> list[str]:
    """The names of those whose modules differ from the first one's in their words alone."""
    return [name for name, backend in list(backends().items())[1:] if not backend.pipeline]


def as_arrays_of(backend: str) -> Callable[[Any], Any]:
    """The function that makes an array of NumPy one of the library that a backend computes with."""
    library: Any = import_module(backends()[backend].runs.library)
    return library.asarray


def narrow(tolerance: float, half_tolerance: float) -> list[tuple[str, bool, str, float]]:
    """Backends, whether fused, in the narrow types that they compute in, with a bound for each.

    In float32, the readable code of the first backend covers the parts that all backends share, and
    the fused code of each other backend covers the parts of its own.
    """
    first, *others = with_calls()
    single = [(first, False), *((name, True) for name in others)]
    half = [
        (name, fused) for name in others if backends()[name].runs.half for fused in (True, False)
    ]
    return [
        *((*each, "float32", tolerance) for each in single),
        *((*each, "bfloat16", half_tolerance) for each in half),
    ]
