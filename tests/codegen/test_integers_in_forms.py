"""Narrow integers give exact results in every form of a program: in the interpreter and on ranks.

One program has the arithmetic that wraps in a narrow type. Its values are by hand, in int64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import xg
import xg_runtime.ranks as ranks
from xg.diagnostics.diagnostic import DiagnosticError
from xg.sharding.local import cuts
from xg.verify.reference.evaluate import Mesh
from xg.verify.reference.interpret import BadInput, Interpreter

Arrays = Mapping[str, NDArray[Any]]

TEXT: Final = """
dim B, D = 4, V = 60000
mesh N_D = 2, N_T = 2

op Square(x [B, D], k [B, D] in V) = x + k*k
op Before(x [B, D], k [B, D] in V) = x*(k - 1)
op Long(x [B, D], k [B, D] in V) = x*(k*B)
op Above(x) = x > 0
op Count(m [B, D] in 2) = float(sum[D](m))
op Rows(k [B, D] in V) = float(sum[B](k))
op Whole(k [B, D] in V) = float(sum[D](k))
op Sign(x [B, D], m [B, D] in 2) = x*(m - 1 + m)

block A(x [B, D], k [B, D] in V, b [B, D] in 2) ->
        squares [B, D], before [B, D], long [B, D], above [B], counts [B], wholes [B],
        rows [D], signs [B, D], drawn [B, D, 1] {
    param W [V, 1]
    x -> Square<-k       : squares
    x -> Before<-k       : before
    x -> Long<-k         : long
    x -> Above -> Count  : above
    b -> Count           : counts
    k -> Whole           : wholes
    k -> Rows            : rows
    x -> Sign<-b         : signs
    k -> Emb(W)          : drawn
}

plan Rows of A {
    x [B/N_D, D]
    k [B/N_D, D]
    b [B/N_D, D]
}

plan Columns of A {
    x [B, D/N_T]
    k [B, D/N_T]
    b [B, D/N_T]
}

plan Table of A {
    W [V/N_T, 1]
}
"""
LARGEST: Final = {"bool": 1, "uint8": 255, "int8": 127, "int16": 32767}  # of others 50,000
KINDS: Final = (*LARGEST, "uint16", "int32", "uint32", "int64", "uint64")
X: Final = np.array([[1.0, -2, 3, 4]] * 4)
W: Final = {"W": np.arange(60_000.0)[:, None]}


def integers(kind: str) -> Arrays:
    """The inputs, with integers of a type, the largest that it has among them."""
    k = np.full((4, 4), LARGEST.get(kind, 50_000))
    k[0, 1] = 0
    return {"x": X, "k": k.astype(kind), "b": (X > 0).astype(kind)}


def expected(inputs: Arrays) -> Arrays:
    """The outputs, computed in int64 and float64."""
    k, b = (inputs[name].astype(np.int64) for name in ("k", "b"))
    return {
        "squares": X + k * k,
        "before": X * (k - 1),
        "long": X * (k * 4),
        "above": (X > 0).sum(1),
        "counts": b.sum(1),
        "wholes": k.sum(1),
        "rows": k.sum(0),
        "signs": X * (2 * b - 1),
        "drawn": k[..., None],
    }


def check(outputs: Mapping[str, object], inputs: Arrays) -> None:
    """Compare outputs with what was computed by hand, bit for bit."""
    for name, array in expected(inputs).items():
        np.testing.assert_array_equal(np.asarray(outputs[name]), array, err_msg=name)


@cache
def program(plan: str = "") -> xg.Program:
    return xg.compile(source=TEXT, plan=plan or None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_interpreter_widens_integers(kind: str) -> None:
    inputs = integers(kind)
    outputs, _ = Interpreter(program().graphs, W).forward(inputs)
    check(outputs, inputs)


def test_the_interpreter_refuses_floats_for_integers() -> None:
    inputs = {**integers("int64"), "k": X}
    with pytest.raises(BadInput, match="k should be integers, not float64"):
        Interpreter(program().graphs, W).forward(inputs)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_interpreter_computes_in_the_type_of_its_floats(dtype: str) -> None:
    text = """
        dim B, N
        op Tenth(i [..] in N) = float(i)*0.1
        block Part(i [B] in N) -> y [B] {
            i -> Tenth : y
        }
        block Main(x [B], i [B] in N) -> y [B] {
            i -> Part as part -> ⊕<-x : y
        }
    """
    inputs = {"x": np.ones(2, dtype), "i": np.array([1, 2], np.int8)}
    outputs, _ = Interpreter(xg.compile(source=text, block="Main").graphs, {}).forward(inputs)
    assert outputs["y"].dtype == dtype


PLANS: Final = ("Rows", "Columns", "Table")
Rank = Callable[[Arrays, Arrays], Mapping[str, Any]]


def on_ranks(plan: str, inputs: Arrays, where: Any, rank: Rank) -> None:  # noqa: ANN401 - cuts of two kinds
    """Run each rank on its shards, and check what they give together."""

    def shards() -> Mapping[str, object]:
        outputs = rank(ranks.local_shards(W, where), ranks.local_shards(inputs, where))
        return ranks.gather_shards({n: np.asarray(x) for n, x in outputs.items()}, where)

    for outputs in ranks.simulate(program(plan).mesh, shards):
        check(outputs, inputs)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int32"])
def test_ranks_of_the_interpreter_widen_integers(plan: str, kind: str) -> None:
    graphs = program(plan).graphs

    def rank(params: Arrays, inputs: Arrays) -> Mapping[str, Any]:
        return Interpreter(graphs, params, mesh=cast(Mesh, ranks)).forward(inputs)[0]

    on_ranks(plan, integers(kind), cuts(graphs), rank)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_ranks_widen_integers(backend: str, kernels: bool, plan: str) -> None:
    module = cast(Any, program(plan).load(backend, kernels=kernels))
    array: Any = torch.tensor if backend == "torch" else np.asarray

    def rank(params: Arrays, inputs: Arrays) -> Mapping[str, Any]:
        given = [{n: array(x) for n, x in each.items()} for each in (params, inputs)]
        return module.forward(*given)[0]

    for kind in ("bool", "uint8", "int8", "int32"):
        on_ranks(plan, integers(kind), module.cuts(), rank)


@pytest.mark.parametrize("plan", PLANS)
def test_a_model_on_ranks_widens_integers(plan: str) -> None:
    module = cast(Any, program(plan).load("torch"))

    def rank(params: Arrays, inputs: Arrays) -> Mapping[str, Any]:
        model = module.Model(seed=0, dtype=torch.float64)
        model.load_state_dict({n: torch.tensor(x) for n, x in params.items()})
        outputs = model(**{n: torch.tensor(x) for n, x in inputs.items()})
        return {n: x.detach() for n, x in outputs.items()}

    for kind in ("bool", "uint8", "int16"):
        on_ranks(plan, integers(kind), module.cuts(), rank)


# ---- states -------------------------------------------------------------------------------------

CELL: Final = """
dim B, S, D = 1, V = 300

op Product(x [B, D], p [B] in V, k [B] in V) = x + float(p*k)

block Cell(k [B] in V, x [B, D]) -> y [B, D] {
    state past [B] in V = START
    x -> Product<-past<-k : y
    next past = k
}
block A(x [B, S, D], k [B, S] in V) -> y [B, S, D] {
    k, x -> Cell over S as cell : y, last
}
"""
IDS: Final = np.array([[255, 255, 2]])
ZERO: Final = np.zeros((1, 3, 1))
PRODUCTS: Final = [[[7.0 * 255], [255.0 * 255], [510.0]]]


def cell(start: str = "7") -> xg.Program:
    return xg.compile(source=CELL.replace("START", start), block="A")


def test_integers_can_be_states() -> None:
    inputs = {"x": ZERO, "k": IDS.astype(np.uint8)}
    outputs, _ = Interpreter(cell().graphs, {}).forward(inputs)
    assert outputs["y"].tolist() == PRODUCTS
    for backend in ("numpy", "torch", "jax"):
        for kernels in (False, True):
            module = cell().on_arrays(backend, kernels=kernels)
            outputs, saved = module.forward({}, inputs)
            assert outputs["y"].tolist() == PRODUCTS
            assert module.backward({}, saved, {"y": ZERO + 1})["x"].tolist() == [[[1], [1], [1]]]
    model = cast(Any, cell().load("torch")).Model()
    assert model(*(torch.tensor(x) for x in inputs.values()))["y"].tolist() == PRODUCTS


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_step_widens_the_integers_of_its_cache(backend: str, kernels: bool) -> None:
    module = cast(Any, cell("0").step().load(backend, kernels=kernels))
    array: Any = torch.tensor if backend == "torch" else np.asarray
    cache, found = module.empty_cache({}), list[float]()
    inputs: dict[str, Any] = {}
    for position in range(3):
        cache = {name: array(np.asarray(x).astype(np.uint8)) for name, x in cache.items()}
        inputs = {"x": array(ZERO[:, :1]), "k": array(IDS[:, position : position + 1])}
        outputs, cache = module.step({}, cache, inputs)
        found += outputs["y"].flatten().tolist()
    assert found == [0, 255 * 255, 510]
    with pytest.raises(ValueError, match=r"cell.past should be integers, not .*float64"):
        module.step({}, {"cell.past": array(ZERO[0, :1, 0])}, inputs)


@pytest.mark.parametrize("start", ["-1", "0.5", "1/S"])
def test_states_of_integers_start_as_integers(start: str) -> None:
    with pytest.raises(DiagnosticError, match=r"a whole number, 0 or more: state past \[B\] in V"):
        cell(start)


def test_states_of_integers_start_in_their_range() -> None:
    with pytest.raises(DiagnosticError, match="301 is more than V = 300"):
        cell("300")


@pytest.mark.parametrize("kind", ["bool", "uint8", "int8"])
def test_an_exported_program_widens_narrow_integers(kind: str) -> None:
    text = "dim B, N = 2\nop F(x [B], k [B] in N) = x*(k - 1) + range[B]*range[B]*50000\n"
    text += "block A(x [B], k [B] in N) -> y [B] {\n    x -> F<-k : y\n}\n"
    model = cast(Any, xg.compile(source=text).load("torch")).Model().eval()
    x, k = torch.ones(4), torch.tensor([0, 1, 1, 0]).to(getattr(torch, kind))
    found = torch.export.export(model, (x, k)).module()(x, k)["y"]
    assert found.tolist() == [-1, 50_000, 200_000, 449_999]
