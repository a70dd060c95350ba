"""Every collective on simulated meshes means what its NumPy one-liner says, bit for bit."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from importlib import import_module
from subprocess import run
from typing import Any

import numpy as np
import pytest
from runtime.ranks.meaning import CASES, MESHES, TOGETHER, Array, on_mesh, same, tensor

from xg_runtime.errors import InputError, RunError
from xg_runtime.ranks import (
    all_gather,
    all_reduce,
    all_reduce_max,
    current,
    number,
    owns_index,
    rank,
    reduce_scatter,
    shard_slice,
    simulate,
    size,
    start_all_gather,
    start_all_reduce,
    start_reduce_scatter,
    start_shift,
    to_local_index,
)
from xg_runtime.ranks.comm_counters import CommCounters, Count
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.kinds import ALL_REDUCE

SHAPE = (6, 6, 12)
PLACES = [*((sizes, over) for sizes in MESHES for over in sizes), *TOGETHER]


def parts(sizes: Mapping[str, int], dtype: str = "float64") -> list[Array]:
    random = np.random.default_rng(1)
    return [(100 * random.standard_normal(SHAPE)).astype(dtype) for _ in range(Grid(sizes).count)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("sizes", "over"), PLACES, ids=str)
def test_means_what_numpy_says(name: str, sizes: dict[str, int], over: str) -> None:
    called, meant = CASES[name]
    given = parts(sizes)
    kept = [part.copy() for part in given]
    found = simulate(sizes, lambda: called(given[number()], over))
    expected = on_mesh(sizes, over, given, meant)
    assert [same(a, b) for a, b in zip(found, expected, strict=True)] == [True] * len(expected)
    assert all(same(a, b) for a, b in zip(given, kept, strict=True)), "what was given has changed"


@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_types_stay_and_torch_agrees(name: str, dtype: str) -> None:
    called, meant = CASES[name]
    sizes = {"N_D": 2, "N_T": 3}
    given = parts(sizes, dtype)
    expected = on_mesh(sizes, "N_T", given, meant)
    in_numpy = simulate(sizes, lambda: called(given[number()], "N_T"))
    tensors: list[Any] = [tensor(part) for part in given]
    in_torch = simulate(sizes, lambda: called(tensors[number()], "N_T"))
    for a, b, c in zip(in_numpy, in_torch, expected, strict=True):
        assert same(a, c)
        assert same(np.asarray(b), c)


def test_sums_are_taken_in_rank_order() -> None:
    values = [1e16, 1.0, -1e16]  # (a + b) + c is 0, a + c + b is 1
    assert (
        simulate({"N_T": 3}, lambda: float(all_reduce(np.array(values[number()]), "N_T")))
        == [0] * 3
    )


def test_results_belong_to_the_rank() -> None:
    def body() -> Array:
        whole = all_reduce(np.ones(2), "N_T")
        whole += rank("N_T")
        return all_gather(whole, "N_T", -1)

    for found in simulate({"N_T": 2}, body):
        assert found.tolist() == [2, 2, 3, 3]


def test_scalars_are_arrays_too() -> None:
    def body() -> tuple[float, float]:
        x = np.arange(3.0).sum() + rank("N_T")
        return float(all_reduce(x, "N_T")), float(all_reduce_max(x, "N_T"))

    assert simulate({"N_T": 2}, body) == [(7, 4)] * 2


def test_an_axis_of_one_rank_changes_nothing_and_costs_nothing() -> None:
    def body() -> bool:
        x = np.ones((2, 2))
        same_array = [
            all_reduce(x, "N_T"),
            all_gather(x, "N_T", -1),
            reduce_scatter(x, "N_T", -2),
            start_all_reduce(x, "N_T").wait(),
            shard_slice(x, "N_T", -1),
        ]
        return all(found is x for found in same_array) and not current().counters.counts

    assert simulate({"N_D": 2, "N_T": 1}, body) == [True] * 2


def test_a_table_cut_by_rows_is_looked_up() -> None:
    table = np.random.default_rng(0).standard_normal((6, 4))
    ids = np.array([[0, 5, 3], [2, 2, 4]])

    def body() -> Array:
        part = shard_slice(table, "N_T", -2)
        rows = len(part)
        found = part[to_local_index(ids, "N_T", rows)] * owns_index(ids, "N_T", rows)[..., None]
        return all_reduce(found, "N_T")

    for sizes in MESHES:
        for found in simulate(sizes, body):
            assert np.array_equal(found, table[ids])
    tensors: Any = tensor(ids)

    def same_in_torch() -> tuple[list[bool], list[int]]:
        found: Any = owns_index(tensors, "N_T", 3)
        return found[0].tolist(), to_local_index(tensors, "N_T", 3)[0].tolist()

    one, two = simulate({"N_T": 2}, same_in_torch)
    assert one == ([True, False, False], [0, 0, 0])
    assert two == ([False, True, True], [0, 2, 0])


def test_begun_early_awaited_late_gives_the_same() -> None:
    def body() -> list[Array]:
        x = np.arange(6.0) * (1 + rank("N_T"))
        reduced = start_all_reduce(x, "N_T")
        gathered = start_all_gather(x, "N_T", -1)
        scattered = start_reduce_scatter(x, "N_T", -1)
        kept = x.copy()
        x[:] = np.nan  # it was given away when the calls were begun
        late = [handle.wait() for handle in (scattered, gathered, reduced)]
        now = [
            reduce_scatter(kept, "N_T", -1),
            all_gather(kept, "N_T", -1),
            all_reduce(kept, "N_T"),
        ]
        return [a - b for a, b in zip(late, now, strict=True)]

    for found in itertools.chain(*simulate({"N_T": 3}, body)):
        assert not found.any()


def test_ranks_know_their_places() -> None:
    found = simulate({"N_D": 2, "N_T": 3}, lambda: (rank("N_D"), rank("N_T"), size("N_T")))
    assert found == [(d, t, 3) for d in range(2) for t in range(3)]
    assert simulate({}, lambda: dict(current().sizes)) == [{}]


def test_counts_are_those_of_the_cost_formulas() -> None:
    def body() -> list[list[str | int]]:
        counters = current().counters
        x = np.zeros((2, 6), np.float32)
        with counters.during("forward"):
            all_reduce(x, "N_T")
            all_reduce(x[:1], "N_T")
            all_gather(x, "N_T", -1)
        with counters.during("backward"):
            reduce_scatter(x, "N_D", -1)
            all_reduce_max(x.astype(np.float64), "N_D")
        return counters.rows()

    for rows in simulate({"N_D": 2, "N_T": 3}, body):
        assert rows == [
            ["forward", "all_reduce", "N_T", 2, 18, 72],
            ["forward", "all_gather", "N_T", 1, 36, 144],
            ["backward", "reduce_scatter", "N_D", 1, 12, 48],
            ["backward", "all_reduce_max", "N_D", 1, 12, 96],
        ]
    counts = CommCounters.of_rows([["", "all_to_all", "N_T", 1, 2, 16]])
    assert counts == {("", "all_to_all", "N_T"): Count(1, 2, 16)}


def test_what_does_not_divide_and_unknown_axes_are_the_programs_fault() -> None:
    with pytest.raises(InputError, match="the mesh axis N_T must have at least one rank; found 0"):
        simulate({"N_T": 0}, lambda: None)
    with pytest.raises(RunError, match=r"axis -1 of \[5\] cannot be cut into N_T = 2") as caught:
        simulate({"N_T": 2}, lambda: reduce_scatter(np.zeros(5), "N_T", -1))
    assert caught.value.exit_code == InputError.exit_code
    with pytest.raises(RunError, match="no axis N_X; its axes are: N_T"):
        simulate({"N_T": 2}, lambda: rank("N_X"))
    with pytest.raises(RunError, match="with mesh"):
        all_reduce(np.zeros(1), "N_T")


def test_simulated_ranks_need_no_torch() -> None:
    code = (
        "import sys, numpy; from xg_runtime.ranks import all_reduce, simulate\n"
        "assert simulate({'N': 2}, lambda: float(all_reduce(numpy.ones(1), 'N')[0])) == [2, 2]\n"
        "assert 'torch' not in sys.modules"
    )
    run([sys.executable, "-c", code], check=True)


def test_what_is_shifted_is_copied_unless_it_is_donated() -> None:
    def body() -> list[bool]:
        x = np.ones(2)
        arrived: list[Array] = []
        for donate in (False, True):
            going = start_shift(x, "N", donate=donate)
            arrived.append(going.wait())
        all_reduce(x, "N")  # both have what was sent
        x[...] = 0
        all_reduce(x, "N")
        return [bool(each.any()) for each in arrived]

    assert simulate({"N": 2}, body) == [[True, False]] * 2


@pytest.mark.parametrize("compiled", [False, True])
def test_a_trace_names_the_communicator_that_was_not_made(compiled: bool) -> None:
    torch: Any = import_module("torch")
    traced = import_module("xg_runtime.ranks.traced").TracedMesh(
        Grid({"N_D": 2, "N_T": 2}), 0, {(0, 1): "0 and 1", (0, 2): "0 and 2"}
    )

    def total(x: Any) -> Any:  # noqa: ANN401
        return traced.run(ALL_REDUCE, "N_D*N_T", x)

    function = torch.compile(total, backend="eager") if compiled else total
    told = r"no communicator over N_D\*N_T was made .*: add it to `Terms\(communicators=...\)`"
    with pytest.raises(InputError, match=told):
        function(torch.ones(2))
