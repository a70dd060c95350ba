"""Linear recurrences with kernels: equal to the loop that the file says, on every backend."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from passes.test_loops import agree_with_rounds, written

import xg
from xg_kernels.numpy import recurrence as numpy_kernels
from xg_kernels.torch import recurrence as torch_kernels

Array = NDArray[Any]

MODELS = Path(__file__).parents[2] / "diagrams" / "models"

CELL = """\
dim B, S, N_H, D_k, D_v

op Outer(k [.., i], v [.., j]) = k*v
op Read(q [.., i], M [.., i, j]) = sum[i](q*M)
op Both(n [.., h, j], c [h, j], v [.., h, j]) = (n - v)*c/2 + v - n/4

block Cell(q, k [B, N_H, D_k], v [B, N_H, D_v], g [B, N_H]) -> y, z [B, N_H, D_v] {
    param c [N_H, D_v] = ones
    state M [B, N_H, D_k, D_v] = 0.5
    state n [B, N_H, D_v]

    k, v -> Outer                                     : u [B, N_H, D_k, D_v]
    g -> BC[b, h -> b, h, D_k=D_k, D_v=D_v] -> ⊙<-M -> ⊕<-u : M_1
    q, M_1 -> Read                                    : y
    n, c, v -> Both    -> ⊕<-y                       : n_1
    n -> ⊙<-n_1 -> tanh                               : z
    next M = M_1
    next n = n_1
}

"""


def retention(turn: str) -> str:
    """A block that calls the cell over the positions of a text."""
    return f"""\
{CELL}block Net(q, k [B, S, N_H, D_k], v [B, S, N_H, D_v], g [B, S, N_H])
    -> Y, Z [B, S, N_H, D_v], M_S [B, N_H, D_k, D_v], n_S [B, N_H, D_v] {{
    q, k, v, g -> Cell over S{turn} as cell : Y, Z, M_S, n_S
}}
"""


SIZES = {"B": 2, "S": 23, "N_H": 3, "D_k": 4, "D_v": 5}


@pytest.mark.parametrize("turn", ["", " reversed"])
def test_states_of_two_recurrences_are_those_of_the_loop(turn: str, tmp_path: Path) -> None:
    program = xg.compile(written(tmp_path, retention(turn)), sizes=SIZES)
    agree_with_rounds(program, in_jax=bool(turn))
    assert "for i in" not in program.source("numpy", kernels=True).split("# ----")[0]


@pytest.mark.parametrize("turn", ["", " reversed"])
@pytest.mark.parametrize("made", ["h -> ⊕<-x -> tanh : y", "h -> tanh -> ⊙<-x : y"])
def test_a_state_that_becomes_a_shared_operand(made: str, turn: str, tmp_path: Path) -> None:
    text = f"""\
dim B, S, D

block Cell(x [B, D], v [B, D]) -> y [B, D] {{
    state h [B, D] = 0.5
    {made}
    next h = v
}}

block Net(X [B, S, D], V [B, D]) -> Y [B, S, D], h_S [B, D] {{
    X, V -> Cell over S{turn} as cell : Y, h_S
}}
"""
    agree_with_rounds(xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 7, "D": 3}))


@pytest.mark.parametrize("step", ["x*(h*3) + x", "x*(h/4) - x", "(h*2)*x + h", "-(h*2)*(-x)"])
def test_constant_factors_of_a_state_multiply(step: str, tmp_path: Path) -> None:
    text = f"""\
dim B, S, D

op Step(h, x) = {step}

block Cell(x [B, D]) -> y [B, D] {{
    state h [B, D] = 0.5
    h, x -> Step : y
    next h = y
}}

block Net(X [B, S, D]) -> Y [B, S, D], h_S [B, D] {{
    X -> Cell over S as cell : Y, h_S
}}
"""
    agree_with_rounds(xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 7, "D": 3}))


NAMED = """\
dim B, S, D

op Move(y, v, s) = (1 - s)*y + s*v
op Turn(dy, y) = tanh(dy * y)

block Cell(v, s, t [B, D]) -> o, p [B, D] {
    state y [B, D] = 0.5

    y, v, s -> Move : o
    y, v -> Turn    : p
    y, v, t -> Move : y_t
    next y = y_t
}

block Net(V, S, T [B, S, D]) -> O, P [B, S, D], y_S [B, D] {
    V, S, T -> Cell over S as cell : O, P, y_S
}
"""


def test_operands_are_not_taken_for_the_result_that_has_their_name(tmp_path: Path) -> None:
    """Operands called y and dy, as results and their gradients are elsewhere."""
    agree_with_rounds(xg.compile(written(tmp_path, NAMED), sizes={"B": 2, "S": 7, "D": 3}))


SPELLED = """\
dim B, S, D, C

op Fade(h [.., C], x [.., C]; w [C]) = w*h + x

block Cell(x [B, C]) -> y [B, C] {
    param w [C] = uniform(0, 1)
    state h [B, C] = 0.5

    h, x -> Fade(w) : h_t
    h_t -> scale(2) : y
    next h = h_t
}

block Net(X [B, S, 2*D]) -> Y [B, S, 2*D], h_S [B, 2*D] {
    X -> Cell over S as cell : Y, h_S
}
"""


@pytest.mark.parametrize(
    ("number", "is_loop"), [("2", False), ("1/sqrt(B)", False), ("1/sqrt(C)", True)]
)
def test_sizes_that_the_caller_spells_otherwise(number: str, is_loop: bool, tmp_path: Path) -> None:
    """C of the cell is 2*D; a number that depends on C stays in the loop."""
    text = SPELLED.replace("scale(2)", f"scale({number})")
    program = xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 7, "D": 3})
    agree_with_rounds(program, outputs=1e-12, slopes=1e-12)
    source = program.source("numpy", kernels=True).split("# ----")[0]
    assert ("for i in range" in source) == is_loop


@pytest.mark.parametrize("name", ["mamba", "mamba2"])
def test_state_spaces_that_ship_are_no_loops(name: str) -> None:
    source = xg.compile(MODELS / f"{name}.xg").source("numpy", kernels=True)
    assert "for i in range(S)" not in source


def test_pieces_of_a_recurrence_beside_one_another_are_the_loop() -> None:
    """Also of factors whose product is no number, and of a gradient that factors share."""
    draw = np.random.default_rng(0)
    cases = (((3, 5), (3, 5), 1.0), ((3, 5), (1, 5), 1.0), ((3, 5), (3, 1), 1e200))
    for shape, shared, large in cases:
        a = draw.standard_normal((29, *shared)) * large
        b, dy = (draw.standard_normal((29, *shape)) / large**1.25 for _ in range(2))
        h, dh = (draw.standard_normal(shape) / large**1.25 for _ in range(2))
        if large > 1:
            a[::3] = 0
        for reverse in (False, True):
            expected = _rounds(a, b, h, reverse)
            for found in (numpy_kernels.recurrence(a, b, h, reverse), _torch(a, b, h, reverse)):
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            theirs = _gradients(a, b, h, dy, dh, reverse)
            ours = numpy_kernels.d_recurrence(dy, dh, a, expected, h, reverse)
            arrays = (dy, dh, a, expected, h)
            dys, dlast, factors, states, start = (torch.from_numpy(x.copy()) for x in arrays)
            given = torch_kernels.d_recurrence(dys, dlast, factors, states, start, reverse)
            for gradients in ([*ours], [x.numpy() for x in given]):
                for found, right in zip(gradients, theirs, strict=True):
                    np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-13)


def _rounds(a: Array, b: Array, h: Array, reverse: bool) -> Array:
    states = np.empty(b.shape)
    for t in reversed(range(len(b))) if reverse else range(len(b)):
        h = states[t] = a[t] * h + b[t]
    return states


def _torch(a: Array, b: Array, h: Array, reverse: bool) -> Array:
    factors, summands, start = map(torch.from_numpy, (a, b, h))
    return torch_kernels.recurrence(factors, summands, start, reverse).numpy()


def _gradients(a: Array, b: Array, h: Array, dy: Array, dh: Array, reverse: bool) -> list[Array]:
    """By autograd, round by round."""
    leaves = [torch.tensor(x, requires_grad=True) for x in (a, b, h)]
    factors, summands, state = leaves
    total = torch.zeros((), dtype=torch.float64)
    for t in reversed(range(len(b))) if reverse else range(len(b)):
        state = factors[t] * state + summands[t]
        total = total + (state * torch.from_numpy(dy[t])).sum()
    (total + (state * torch.from_numpy(dh)).sum()).backward()
    return [np.asarray(leaf.grad) for leaf in leaves]


INSIDE = """\
dim S, D

block Cell(u [D]) -> y [D] {
    %s
    next h = y
}

block Inner(u [S, D]) -> y [S, D] { u -> Cell over S%s : y }
block Net(u [S, D]) -> y [S, D] { u -> Inner : y }
"""


@pytest.mark.parametrize("turn", ["", " reversed"])
@pytest.mark.parametrize(
    "lines",
    [
        "state h [D]\n    h -> ⊕<-u : y",
        "state h [D]\n    h -> ⊙<-u -> ⊕<-u : y",
        "param a [D] = normal(0.5)\n    state h [D]\n    h -> ⊙<-a -> ⊕<-u : y",
    ],
)
def test_a_called_block_may_be_nothing_but_a_recurrence(
    lines: str, turn: str, tmp_path: Path
) -> None:
    """Its cell has no function left, and the module of torch holds its parameters only."""
    program = xg.compile(written(tmp_path, INSIDE % (lines, turn)), sizes={"S": 7, "D": 3})
    agree_with_rounds(program, in_jax=not turn)
    source = program.source("torch", kernels=True)
    assert source.count("class CellSaved") == 1
    model = program.load("torch", kernels=True).Model(dtype=torch.float64)
    readable = program.load("torch").Model(dtype=torch.float64)
    readable.load_state_dict(model.state_dict())
    results: list[list[torch.Tensor]] = []
    for module in (model, readable):
        u = torch.linspace(-1, 1, 21, dtype=torch.float64).view(7, 3).requires_grad_()
        y = module(u)["y"]
        slopes = torch.autograd.grad((y * y).sum(), [u, *module.parameters()])
        results.append([y, *slopes])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "line",
    ["h -> ⊙<-h -> ⊕<-x : y", "h -> tanh -> ⊕<-x : y", "h -> DO(0.5) -> ⊕<-x : y", "x -> tanh : y"],
)
def test_other_states_stay_in_the_loop(line: str, tmp_path: Path) -> None:
    """Squares, functions, what each round draws, and a state that is not read."""
    text = "dim B, S\n\nblock Cell(x [B]) -> y [B] {\n    state h [B] = 0.5\n"
    text += f"    {line}\n    next h = y\n}}\n\n"
    text += "block Net(X [S, B]) -> Y [S, B] {\n    X -> Cell over S as cell : Y\n}\n"
    program = xg.compile(written(tmp_path, text), sizes={"B": 2, "S": 20})
    assert "for i in range" in program.source("numpy", kernels=True)
    inputs = {"X": np.random.default_rng(0).standard_normal((20, 2)) / 4}
    seed = {"seed": 3} if "DO" in line else {}
    first, other = (program.load(kernels=k).forward({}, inputs, **seed)[0] for k in (False, True))
    np.testing.assert_array_equal(first["Y"], other["Y"])


def test_a_recurrence_says_that_it_has_no_second_derivative(tmp_path: Path) -> None:
    text = "dim B, S\n\nblock Cell(x [B]) -> y [B] {\n    state h [B] = 0.5\n"
    text += "    h -> scale(0.5) -> ⊕<-x : y\n    next h = y\n}\n\n"
    text += "block Net(X [S, B]) -> Y [S, B] {\n    X -> Cell over S as cell : Y\n}\n"
    model = xg.compile(written(tmp_path, text)).load("torch", kernels=True).Model()
    x = torch.ones(5, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x)["Y"].sum(), x)
    assert gradient[:, 0].tolist() == [1.9375, 1.875, 1.75, 1.5, 1]
    with pytest.raises(RuntimeError, match=r"no second derivative of .*recurrence"):
        torch.autograd.grad(model(x)["Y"].sum(), x, create_graph=True)
