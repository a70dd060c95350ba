"""Two names of one size, and a size that is known in two ways, give the same number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.codegen.emitted.test_ranges import arrays_of

import xg
from xg.driver import BACKENDS
from xg.verify.reference.interpret import BadInput, bind_sizes

BODY = "X -> BC[b, s -> b, s, m=M] -> sum[M] : Y"
# The dims of a file, the size of X, and how many times as many numbers are summed.
FILES = {
    "the name of a size after it": ("B, S = 4, N = S, M = 2*S", "S", 2),
    "before it": ("B, N = S, S = 4, M = 3*S", "S", 3),
    "of an open size": ("B, N = S, S, M = 2*N", "N", 2),
    "a name of a name": ("B, S = 4, P = N, N = S, M = 2*P", "P", 2),
    "of a size that is defined": ("B, K = D_h, D_h = D/N_H, D = 16, N_H = 4, M = 2*D_h", "D_h", 2),
    "there and back": ("B, Q = P/2, P = 2*S, S = 4, M = P, N = 2*Q", "S", 2),
}
APART = "dim B, D_h = D/N_H, D = 16, N_H = 4, M = 2*D"
Forward = Callable[[Any], Any]


def of(dims: str, size: str) -> str:
    return f"{dims}\nblock F(X [B, {size}]) -> Y [B, {size}] {{\n    {BODY}\n}}\n"


def forwards(text: str, backend: str) -> list[Forward]:
    """The ways to compute Y of a program without parameters."""
    program, ways = xg.compile(source=text), list[Forward]()
    for kernels in (False, True):
        module = program.load(backend, kernels=kernels)
        ways.append(lambda X, module=module: module.forward({}, {"X": X})[0]["Y"])
        if backend == "torch":
            model = module.Model()
            ways.append(lambda X, model=model: model(X)["Y"])
    return ways


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FILES)
def test_a_size_has_one_number_under_all_of_its_names(name: str, backend: str) -> None:
    dims, size, times = FILES[name]
    length = 4 if "D_h" in size else 6  # another one than that of the file, where inputs decide
    X = arrays_of(backend)(np.ones((2, length)).tolist())
    for forward in forwards(of(f"dim {dims}", size), backend):
        assert np.array_equal(forward(X), np.full((2, length), times * length))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_fits_what_defines_its_size(backend: str) -> None:
    """M counts as many as the file's D says; so D/N_H is the length of X, and no other one."""
    said = re.escape("X should have shape [2, 4], not [2, 8]")
    for forward in forwards(of(APART, "D_h"), backend):
        with pytest.raises(ValueError, match=said):
            forward(arrays_of(backend)(np.ones((2, 8)).tolist()))
    with pytest.raises(BadInput, match=re.escape("should be [2, 4], but is [2, 8]")):
        bind_sizes(xg.compile(source=of(APART, "D_h")).graphs, {"X": np.ones((2, 8))})


def test_the_interpreter_numbers_what_a_length_is_divided_by() -> None:
    program = xg.compile(source=of("dim B, H = 6, N_H, D_h = H/N_H, M = 2*N_H", "D_h")).graphs
    assert bind_sizes(program, {"X": np.ones((2, 3))})["N_H"] == 2
    said = re.escape("X [B, H/N_H] has shape [2, 4]: nothing numbers N_H")
    with pytest.raises(BadInput, match=said):
        bind_sizes(program, {"X": np.ones((2, 4))})


def test_a_shape_is_written_with_the_name_that_is_no_others() -> None:
    main = xg.compile(source=of("dim B, N = S, S = 4, M = 2*S", "S")).graphs.main
    assert [str(main.types[value]) for value in main.inputs] == ["[B, S]"]
    folded = main.sizes.fold_type(main.types[main.inputs[0]])
    assert str(folded) == "[B, S]"
