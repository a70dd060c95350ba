"""Calls over an axis: equal to torch's recurrence, to calls written one by one, to differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from codegen.emitted.test_second_derivatives import assert_equal, model_run, second_derivatives
from numpy.typing import NDArray
from saved import arrays_in
from tier import THOROUGH

import xg
from xg.cli import main
from xg.codegen.backend import backends
from xg.cost.cost import cost
from xg.verify.autograd_model import model_gradients

Arrays = dict[str, NDArray[Any]]
GRU = Path(__file__).parents[2] / "diagrams/examples/gru.xg"
SIZES = {"B": 3, "S": 5, "D": 4, "D_h": 6}

CELL = """\
dim B, S, T, Q, D = 3, D_h = 2

block Cell(x [B, D], w [B], M [B, T, D_h], i [B] in D_h; p = 0.25) -> y [B, D_h], c [B] {
    param W [D, D_h], U, E [D_h, D_h]
    state h [B, D_h] = 0.5
    state k [B] = ones

    i -> Emb(E)                                      : e [B, D_h]
    M -> mean[T]                                     : m [B, D_h]
    x -> •<=W -> ⊕<-(h -> •<=U) -> ⊕<-e -> ⊕<-m      : g
    g -> DO(p) -> tanh                               : y
    y -> sum[D_h] -> ⊕<-w -> ⊙<-k -> tanh            : c
    next h = y
    next k = c
}

"""
PORTS = "(X [B, S, D], w [B], M [B, T, D_h], ids [S, B] in D_h, h_0 [B, D_h])"
LOOP = f"""\
{CELL}block Net{PORTS} -> Y [B, S, D_h], C [B, S], k_S [B] {{
    X, w, M, ids -> Cell(h=h_0) over S as cell : Y, C, h_S, k_S
}}
"""
TWICE = f"""\
{CELL}block Inner{PORTS} -> Y [B, S, D_h], C [B, S] {{
    X, w, M, ids -> Cell(h=h_0) over S as cell          : A, C_1
    X, w, M, ids -> Cell(h=h_0) over S reversed as back : A_2, C_2
    A -> ⊕<-A_2 -> ⊙<-A                                 : Y
    C_1 -> ⊙<-C_2                                       : C
}}

block Outer(X [Q, B, S, D], w [B], M [B, T, D_h], ids [S, B] in D_h)
    -> Y [Q, B, S, D_h], C [Q, B, S] {{
    M -> mean[T]                                        : h_0 [B, D_h]
    X, w, M, ids, h_0 -> Inner over Q as inner          : Y, C
}}
"""

NESTED = """\
dim Q, B, S, D = 3
block Cell(x [B, D]) -> y [B, D] {
    param W [D, D]
    state h [B, D] = 0.5
    x -> •<=W -> ⊕<-h -> tanh : y
    next h = y
}
block Inner(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S as cell          : A
    X -> Cell over S reversed as back : A_2
    A -> ⊙<-A_2                       : Y
}
block Outer(X [Q, B, S, D]) -> Y [Q, B, S, D] {
    X -> Inner over Q as inner : Y
}
"""


FEW_ROUNDS = {"Q": 2, "S": 3, "B": 4, "D_h": 6, "T": 7, "D": 5}  # every difference runs them all


def drawn(program: xg.Program) -> tuple[Arrays, Arrays, Arrays]:
    """Parameters, inputs and cotangents of the outputs."""
    draw = np.random.default_rng(1)
    params: Arrays = {}
    for name, spec in program.params.items():
        params[name] = draw.standard_normal(_numbers(spec.shape)) / 2
    inputs: Arrays = {}
    for name, spec in program.inputs.items():
        shape = _numbers(spec.shape)
        bound = spec.range if isinstance(spec.range, int) else None
        whole = bound is not None
        inputs[name] = draw.integers(0, bound, shape) if whole else draw.standard_normal(shape)
    outputs, _ = program.load().forward(params, inputs)
    return params, inputs, {name: draw.standard_normal(y.shape) for name, y in outputs.items()}


def agree_with_rounds(
    program: xg.Program, outputs: float = 1e-11, slopes: float = 1e-10, *, in_jax: bool = True
) -> None:
    """Compare what kernels compute, on every backend, with the rounds of readable code.

    XLA compiles loops for seconds: without `in_jax` it does so where tests are thorough.
    """
    params, inputs, cotangents = drawn(program)
    expected, saved = program.load().forward(params, inputs)
    gradients = program.load().backward(params, saved, cotangents)
    for backend in backends():
        if backend == "jax" and not (in_jax or THOROUGH):
            continue
        arrays = program.on_arrays(backend, kernels=True)
        made, saved = arrays.forward(params, inputs)
        found = arrays.backward(params, saved, cotangents)
        assert found.keys() == gradients.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(made[name], array, atol=outputs, err_msg=name)
        for name, array in gradients.items():
            np.testing.assert_allclose(found[name], array, atol=slopes, err_msg=name)


def _numbers(shape: tuple[int | str, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int))


def written(tmp_path: Path, text: str) -> Path:
    """A file of a text."""
    (tmp_path / "a.xg").write_text(text, encoding="utf-8")
    return tmp_path / "a.xg"


@pytest.mark.parametrize("kernels", [False, True], ids=["readable", "kernels"])
def test_a_cell_over_an_axis_is_the_recurrence_of_torch(kernels: bool) -> None:
    program = xg.compile(GRU, sizes=SIZES)
    params, inputs, cotangents = drawn(program)
    module = program.load(kernels=kernels)
    outputs, saved = module.forward(params, inputs)
    gradients = module.backward(params, saved, cotangents)
    gru = torch.nn.GRU(SIZES["D"], SIZES["D_h"], batch_first=True, dtype=torch.float64)
    cell = {name: torch.tensor(params[f"cell.{name}"]) for name in ("b_r", "b_z", "b_n", "c_n")}
    zero = torch.zeros_like(cell["b_r"])
    gates = "rzn"
    state = {
        "weight_ih_l0": torch.cat([torch.tensor(params[f"cell.W_{g}"]).T for g in gates]),
        "weight_hh_l0": torch.cat([torch.tensor(params[f"cell.U_{g}"]).T for g in gates]),
        "bias_ih_l0": torch.cat([cell[f"b_{g}"] for g in gates]),
        "bias_hh_l0": torch.cat([zero, zero, cell["c_n"]]),
    }
    gru.load_state_dict(state)
    X = torch.tensor(inputs["X"], requires_grad=True)
    H, last = gru(X)
    np.testing.assert_allclose(outputs["H"], H.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(outputs["h_S"], last[0].detach().numpy(), atol=1e-12)
    both = (H * torch.tensor(cotangents["H"])).sum() + (
        last[0] * torch.tensor(cotangents["h_S"])
    ).sum()
    both.backward()
    np.testing.assert_allclose(gradients["X"], X.grad, atol=1e-12)  # pyright: ignore
    for number, gate in enumerate(gates):
        part = slice(number * SIZES["D_h"], (number + 1) * SIZES["D_h"])
        for name, theirs in (
            ("W", gru.weight_ih_l0),
            ("U", gru.weight_hh_l0),
            ("b", gru.bias_ih_l0),
        ):
            ours = gradients[f"cell.{name}_{gate}"]
            np.testing.assert_allclose(ours.T, theirs.grad[part], atol=1e-12)  # pyright: ignore


# XLA compiles loops in a loop for a quarter of a minute, and those of a small cell for seconds.
PROVEN = {
    "loop": (LOOP, "fd,torch,jax"),
    "loop in a loop": (TWICE, "fd,torch,jax" if THOROUGH else "fd,torch"),
    "small loop in a loop": (NESTED, "fd,jax"),
}


@pytest.mark.parametrize("name", PROVEN)
def test_gradients_are_those_of_differences_on_every_backend(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One form of code of each text, or both where tests are thorough."""
    text, against = PROVEN[name]
    path = written(tmp_path, text)
    few = {size: FEW_ROUNDS[size] for size in FEW_ROUNDS if text != NESTED or size in "QSBD"}
    sizes = [word for size, number in few.items() for word in ("--set", f"{size}={number}")]
    forms = [list[str](), ["--kernels"]]
    for form in forms if THOROUGH else [forms[name != "loop"]]:
        code = main(["verify", str(path), "--against", against, *sizes, *form])
        assert code == 0, capsys.readouterr().out
        assert "all proven" in capsys.readouterr().out


@pytest.mark.parametrize("reverse", ["", " reversed"])
def test_a_loop_is_its_rounds_written_one_by_one(reverse: str, tmp_path: Path) -> None:
    """Without dropout, which is drawn by the name of a call."""
    order = [0, 1, 2] if not reverse else [2, 1, 0]
    text = LOOP.replace("over S", f"over S{reverse}")
    loop = xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 3, "T": 4})
    params, inputs, cotangents = drawn(loop)
    module = loop.load()
    outputs, saved = module.forward(params, inputs)
    gradients = module.backward(params, saved, cotangents)
    cell = xg.compile(tmp_path / "a.xg", block="Cell", sizes={"B": 2, "T": 4}).load()
    own = {name.removeprefix("cell."): array for name, array in params.items()}
    state = {"h": inputs["h_0"], "k": np.ones(2)}
    rounds: dict[int, tuple[Arrays, Any]] = {}
    for i in order:
        given = {"x": inputs["X"][:, i], "i": inputs["ids"][i], "w": inputs["w"], "M": inputs["M"]}
        rounds[i] = cell.forward(own, {**given, **state})
        state = {name: rounds[i][0][name] for name in ("h", "k")}
        np.testing.assert_array_equal(outputs["Y"][:, i], rounds[i][0]["y"])
        np.testing.assert_array_equal(outputs["C"][:, i], rounds[i][0]["c"])
    np.testing.assert_array_equal(outputs["k_S"], state["k"])
    total = {name: np.zeros_like(array) for name, array in own.items()}
    arriving = {"h": np.zeros((2, 2)), "k": cotangents["k_S"]}
    for i in reversed(order):
        dy = {"y": cotangents["Y"][:, i], "c": cotangents["C"][:, i], **arriving}
        found = cell.backward(own, rounds[i][1], dy)
        total = {name: total[name] + found[name] for name in total}
        arriving = {"h": found["h"], "k": found["k"]}
        np.testing.assert_allclose(gradients["X"][:, i], found["x"], atol=1e-12)
    np.testing.assert_allclose(gradients["h_0"], arriving["h"], atol=1e-12)
    for name, array in total.items():
        np.testing.assert_allclose(gradients[f"cell.{name}"], array, atol=1e-12)


def test_rounds_draw_numbers_of_their_own(tmp_path: Path) -> None:
    text = "dim B, S\nblock Cell(x [B]) -> y [B] {\n    x -> DO(0.5) : y\n}\n"
    text += "block Net(X [S, B]) -> Y [S, B] {\n    X -> Cell over S : Y\n}\n"
    program = xg.compile(written(tmp_path, text), sizes={"B": 64, "S": 8})
    kept: list[NDArray[Any]] = []
    for backend in backends():
        arrays = program.on_arrays(backend)
        kept.append(arrays.forward({}, {"X": np.ones((8, 64))}, seed=3)[0]["Y"] > 0)
    assert all(np.array_equal(kept[0], other) for other in kept[1:])
    assert len({row.tobytes() for row in kept[0]}) == 8
    assert 0.4 < kept[0].mean() < 0.6


@pytest.mark.parametrize("text", [LOOP, TWICE], ids=["loop", "loop in a loop"])
def test_a_torch_module_has_the_gradients_of_the_functions(text: str, tmp_path: Path) -> None:
    program = xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 3, "T": 4, "Q": 2})
    params, inputs, cotangents = drawn(program)
    arrays = program.on_arrays("numpy")
    expected, saved = arrays.forward(params, inputs, seed=3)
    derived = arrays.backward(params, saved, cotangents)
    module = program.load("torch")
    outputs, gradients = model_gradients(module, {}, params, inputs, cotangents, 3)
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, atol=1e-12)
    for name, array in gradients.items():
        np.testing.assert_allclose(array, derived[name], atol=1e-11)
    tensors = [{n: torch.tensor(x) for n, x in each.items()} for each in (params, inputs)]
    forward = module.forward.__wrapped__
    theirs = second_derivatives(
        lambda p, x: forward(p, x, seed=torch.tensor(5))[0], tensors[0], tensors[1]
    )
    assert_equal(second_derivatives(model_run(module), *tensors), theirs)


def test_costs_count_rounds_and_parameters_once() -> None:
    program = xg.compile(GRU, sizes=SIZES)
    params, inputs, _ = drawn(program)
    _, saved = program.load().forward(params, inputs)
    total = cost(program.graphs, "float64").total
    numbers = program.graphs.main.sizes.bind({})
    assert total.parameters.evaluate(numbers) == sum(array.size for array in params.values())
    base = {id(a if a.base is None else a.base): a for a in arrays_in(saved)}
    assert total.saved.evaluate(numbers) == sum(
        (a if a.base is None else a.base).nbytes for a in base.values()
    )
    longer = cost(xg.compile(GRU, sizes={**SIZES, "S": 10}).graphs, "float64").total
    assert longer.forward.evaluate({**numbers, "S": 10}) == 2 * total.forward.evaluate(numbers)


def test_code_does_not_grow_with_the_axis() -> None:
    sources = {xg.compile(GRU, sizes={**SIZES, "S": n}).source("numpy") for n in (2, 1000)}
    assert len({source.count("\n") for source in sources}) == 1
