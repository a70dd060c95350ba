"""Every kernel computes what the body of its operator computes."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from backends import as_arrays_of
from codegen.kernels.cases import Case, cases, functions
from codegen.kernels.samples import uses
from numpy.typing import NDArray
from ops.sample import SIZES
from tier import THOROUGH

from xg.codegen.backend import backends
from xg.codegen.emit.dialect import Kernels

Array = NDArray[Any]
Function = Callable[..., Any]


def on_one_device(kernels: Kernels) -> Kernels:
    """Those that need no other ranks; rings are proven in `verify.proof`."""
    table = [each for each in kernels.table if not each.operator.endswith("ring attention")]
    return replace(kernels, table=table)


TABLES = {
    name: on_one_device(each.parts.kernels)
    for name, each in backends().items()
    if each.parts.kernels
}


FUNCTIONS = {name: functions(kernels) for name, kernels in TABLES.items()}
USES = {name: (op, sample) for op, sample, name in uses()}
NAMES = [(b, name) for b, each in TABLES.items() for name in sorted(k.function for k in each.table)]
TOLERANCES = {"float64": 1e-10, "float32": 2e-6}
FLOORS = {"float64": 1e-3, "float32": 1.0}  # below these norms errors are absolute
TOLERANCE = TOLERANCES["float64"]
ALONE = {"float64": TOLERANCE}


def in_type(arrays: Sequence[Array | None], dtype: str) -> list[Array | None]:
    """Copies of arrays, those of floats in a type."""
    kinds = {"f": dtype}
    return [None if a is None else a.astype(kinds.get(a.dtype.kind, a.dtype)) for a in arrays]


def turned(array: Array) -> Array:
    """The same array, the last axis but one innermost in memory, as that of a transpose."""
    if array.ndim == 1:
        return np.repeat(array, 2)[::2]
    return np.swapaxes(array, -1, -2).copy().swapaxes(-1, -2) if array.ndim else array


def results(
    case: Case,
    backend: str,
    function: Function,
    dtype: str = "float64",
    laid: Callable[[Array], Array] = np.asarray,
) -> list[Array | None]:
    """The results of a kernel for a case; operands that it may not overwrite stay unchanged."""
    own, before = as_arrays_of(backend), in_type(case.arrays, dtype)
    given = [None if a is None else own(laid(a)) for a in in_type(case.arrays, dtype)]
    made = function(*given, *case.numbers, *case.drawn)
    names = case.function.head[1:].split(", ")
    for name, old, now in zip(names, before, given, strict=False):
        if name.split(":")[0] not in case.spent and old is not None:
            assert now is not None
            assert np.array_equal(old, now, equal_nan=True), name
    found: list[Any] = list(made) if case.function.results > 1 else [made]
    return [None if a is None else np.asarray(a) for a in found]


def error(found: list[Array | None], case: Case, dtype: str = "float64") -> float:
    """The largest relative error of any result."""
    errors = [0.0]
    for have, want in zip(found, in_type(case.wanted, dtype), strict=True):
        if have is None or want is None:
            assert have is None
            assert want is None
            continue
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        size = max(float(np.linalg.norm(want)), FLOORS[dtype])
        errors.append(float(np.linalg.norm(np.subtract(have, want, dtype=np.float64))) / size)
    return max(errors)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("backend", TABLES)
def test_kernels_compute_the_body_of_a_use(backend: str, use: str) -> None:
    """Daily axes of 1 in float64 alone, and all others in every type and layout."""
    for case in cases(TABLES[backend], *USES[use], use):
        kernel = FUNCTIONS[backend][case.kernel]
        every = THOROUGH or case.sizes == SIZES
        for dtype, tolerance in (TOLERANCES if every else ALONE).items():
            found = results(case, backend, kernel, dtype)
            assert error(found, case, dtype) < tolerance, (case.kernel, case.sizes, case.seed)
        if every:
            found = results(case, backend, kernel, laid=turned)
            assert error(found, case) < TOLERANCE, ("turned", case.kernel, case.sizes, case.seed)


@pytest.fixture(scope="module")
def met() -> Mapping[str, Mapping[str, list[str]]]:
    """The uses that every kernel of a backend fits."""
    found = {b: {kernel.function: list[str]() for kernel in t.table} for b, t in TABLES.items()}
    for backend, use in product(TABLES, USES):
        fitting = cases(TABLES[backend], *USES[use], use, axes_of_one=False)
        for kernel in {case.kernel for case in fitting}:
            found[backend][kernel].append(use)
    return found


def test_kernels_are_what_operators_need(met: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Each is met by a use, and one that is a little wrong is found."""
    for backend, found in met.items():
        assert all(found.values())
        for kernel, fitting in found.items():
            assert any(_is_found(backend, kernel, use) for use in fitting), kernel


def _is_found(backend: str, kernel: str, use: str) -> bool:
    def wrong(*arguments: object) -> Any:  # noqa: ANN401 - whatever the kernel gives
        given: Any = FUNCTIONS[backend][kernel](*arguments)
        if not isinstance(given, tuple):
            return given * (1 + 1e-8)
        return (given[0] * (1 + 1e-8), *given[1:])

    fitting = (c for c in cases(TABLES[backend], *USES[use], use) if c.kernel == kernel)
    return any(error(results(case, backend, wrong), case) > TOLERANCE for case in fitting)


@pytest.mark.parametrize("backend", TABLES)
def test_softmax_of_large_numbers_and_of_a_row_that_is_masked(backend: str) -> None:
    z = np.array([[800.0, 799.0, -800.0], [-np.inf] * 3])
    found = np.asarray(FUNCTIONS[backend]["softmax"](as_arrays_of(backend)(z)))
    p = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(found, [[p, 1 - p, 0], [0, 0, 0]], rtol=1e-12)


@pytest.mark.parametrize("backend", TABLES)
def test_layer_normalization_takes_weights_of_another_type(backend: str) -> None:
    draw = np.random.default_rng(3).normal
    x, gamma, beta, dy = draw(size=(2, 3, 5)), draw(size=5), draw(size=5), draw(size=(2, 3, 5))
    narrow, own = x.astype(np.float32), as_arrays_of(backend)
    both: tuple[list[Array], list[Array]] = ([], [])
    for made, given in zip(both, (narrow, narrow.astype(np.float64)), strict=True):
        layer_norm = FUNCTIONS[backend]["layer_norm"]
        y, mean, rstd = layer_norm(own(given), own(gamma), own(beta), 1e-5)
        backward = FUNCTIONS[backend]["d_layer_norm"](own(dy), own(given), own(gamma), mean, rstd)
        made += [np.asarray(each) for each in (y, *backward)]
    for mixed, wide in zip(*both, strict=True):
        np.testing.assert_allclose(mixed, wide, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("backend", "kernel"), NAMES)
def test_no_kernel_is_called_by_another(backend: str, kernel: str) -> None:
    """A module may give it another name: a block can be called Attention."""
    callers = [
        name for name in TABLES[backend].names() if kernel in TABLES[backend].support.callees(name)
    ]
    assert not callers
