import numpy as np
import pytest

from xg_runtime.errors import InputError
from xg_runtime.module import Arrays
from xg_runtime.run import Expected, fit, fit_without_copy, random_inputs, spread_params
from xg_runtime.tensorfile import Stack

WANTED = {
    "X": Expected(("B", "S", 3)),
    "ids": Expected(("B", "S"), below=10),
    "t": Expected(("B", "S"), below=10, ignored=-1),
}


def given() -> Arrays:
    ids = np.arange(10, dtype=np.uint8).reshape(2, 5)
    return {"t": ids.astype(np.int32) - 1 + (ids == 0), "ids": ids, "X": np.ones((2, 5, 3))}


def message(arrays: Arrays) -> str:
    with pytest.raises(InputError) as caught:
        fit(arrays, WANTED, dtype=np.float32, source="in.npz")
    return str(caught.value)


def test_arrays_that_fit_come_in_order_and_in_the_runs_type() -> None:
    fitted = fit(given(), WANTED, dtype=np.float32, source="in.npz")
    assert list(fitted) == ["X", "ids", "t"]
    assert [array.dtype.name for array in fitted.values()] == ["float32", "int64", "int64"]


def test_the_ignored_id_may_stand_outside_the_range() -> None:
    arrays = given()
    arrays["t"][0, 0] = -1
    assert fit(arrays, WANTED, dtype=np.float32, source="in.npz")["t"][0, 0] == -1
    arrays["t"][0, 0] = -2
    assert message(arrays) == "in.npz: t[0, 0] is -2, expected integers from 0 to 9"


def test_names_are_compared() -> None:
    arrays = given()
    arrays["x"] = arrays.pop("X")
    assert message(arrays) == "in.npz has no X [B, S, 3]; it has x"
    arrays["X"] = arrays["x"]
    assert message(arrays) == "in.npz has x, which the program does not take"


def test_shapes_are_compared() -> None:
    assert message(given() | {"X": np.ones((2, 3))}) == (
        "in.npz: X has shape [2, 3], expected [B, S, 3]"
    )
    assert message(given() | {"X": np.ones((2, 5, 4))}) == (
        "in.npz: X has shape [2, 5, 4], expected [B, S, 3]"
    )
    assert message(given() | {"ids": np.ones((2, 6), int)}) == (
        "in.npz: ids has shape [2, 6], expected [B, S] with S = 5 from X"
    )


def test_types_are_compared() -> None:
    assert message(given() | {"X": np.ones((2, 5, 3), int)}) == (
        "in.npz: X holds int64, expected floats for [B, S, 3]"
    )
    assert message(given() | {"ids": np.ones((2, 5))}) == (
        "in.npz: ids holds float64, expected integers from 0 to 9"
    )
    assert message(given() | {"ids": np.full((2, 5), 10)}) == (
        "in.npz: ids[0, 0] is 10, expected integers from 0 to 9"
    )


def test_many_missing_names_are_counted() -> None:
    wanted = {f"W_{place}": Expected(()) for place in range(8)}
    with pytest.raises(InputError, match=r"W_3 \[\], W_4 \[\] and 3 more$"):
        fit({}, wanted, dtype=np.float32, source="p.npz")


def test_invented_inputs_fit_and_depend_on_the_seed() -> None:
    sizes = {"B": 2, "S": 5}
    first = random_inputs(WANTED, sizes, 0)
    fitted = fit(first, WANTED, dtype=np.float64, source="invented")
    assert {name: array.shape for name, array in fitted.items()} == {
        "X": (2, 5, 3), "ids": (2, 5), "t": (2, 5),
    }  # fmt: skip
    assert np.array_equal(first["X"], random_inputs(WANTED, sizes, 0)["X"])
    assert not np.array_equal(first["X"], random_inputs(WANTED, sizes, 1)["X"])
    with pytest.raises(InputError, match=r"X \[B, S, 3\] has no number for S"):
        random_inputs(WANTED, {"B": 2}, 0)


def test_spread_parameters_are_no_longer_special() -> None:
    params: Arrays = {"gamma": np.ones(50, np.float32), "beta": np.zeros(50), "n": np.arange(3)}
    moved = spread_params(params, 0)
    assert np.abs(moved["gamma"] - 1).min() > 0
    assert 0.1 < moved["beta"].std() < 0.5
    assert moved["gamma"].dtype == np.float32
    assert np.array_equal(moved["n"], params["n"])


def test_stored_floats_are_compared_and_not_read() -> None:
    stack = Stack.of([np.ones(4), np.zeros(4)])
    wanted = {"b": Expected((3,)), "W": Expected((2, 4))}
    fitted = fit_without_copy({"W": stack, "b": np.ones(3, np.float16)}, wanted, source="it")
    assert list(fitted) == ["b", "W"]
    assert fitted["W"] is stack
    with pytest.raises(InputError, match=r"it: W has shape \[2, 4\], expected \[2, 5\]"):
        fit_without_copy({"W": stack}, {"W": Expected((2, 5))}, source="it")
    with pytest.raises(InputError, match="it: b holds int64, expected floats"):
        fit_without_copy({"b": np.ones(3, np.int64)}, {"b": Expected((3,))}, source="it")
