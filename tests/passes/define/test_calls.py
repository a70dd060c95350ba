"""Ops that call ops, and ops that declare the order of their result's axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import xg
from xg.diagnostics.diagnostic import DiagnosticError
from xg.verify.reference.interpret import Interpreter

if TYPE_CHECKING:
    from torch import Tensor

DIMS = "dim B = 2, N = 3, M = 4, D = 5\n"
OPS = """
op Diff(x [B, N, D], y [B, M, D]) -> [B, N, M, D] = x - y
op Turn(x [.., S, D]) -> [.., D, S] = x^2
op Swish(x; b = 1) = x * sigmoid(b * x)
op Unit(x [.., D]; eps = 1e-6) = x / sqrt(sum[D](x^2) + eps)
op Huber(x, y; delta = 1) = select(a > delta, delta * (a - delta/2), a^2/2) where a = abs(x - y)
op Scaled(x [.., D]; g [D]) = Unit(x, eps=0.5) * g
op Later(a, b) = a > b
op Square(x) = x * x
"""
# The shape of the result, a line of x [B, N, D] and y [B, M, D], and the same in torch.
CASES: dict[str, tuple[str, Callable[[Any, Tensor, Tensor], Tensor]]] = {
    "op F(x [B, N, D], y [B, M, D]) = Swish(Unit(x), 2) + mean[M](y)": (
        "[B, N, D]",
        lambda torch, x, y: _swish(torch, _unit(torch, x)) + y.mean(1)[:, None],
    ),
    "op F(x [B, N, D], y [B, M, D]) = sum[N](x) * mean[M](Unit(y, eps=0.25))": (
        "[B, D]",
        lambda torch, x, y: x.sum(1) * _unit(torch, y, 0.25).mean(1),
    ),
    "op F(x [B, N, D], y [B, M, D]) -> [D, M, B] = Huber(sum[N](x), y, delta=0.5)": (
        "[D, M, B]",
        lambda torch, x, y: torch.nn.functional.huber_loss(
            y, x.sum(1)[:, None].expand(y.shape), reduction="none", delta=0.5
        ).permute(2, 1, 0),
    ),
    "op F(x [B, N, D], y [B, M, D]) = select(Later(x, mean[M](y)), Square(x), Square(2) * x)": (
        "[B, N, D]",
        lambda torch, x, y: torch.where(x > y.mean(1)[:, None], x**2, 4 * x),
    ),
    "op F(x [B, N, D], y [B, M, D]) -> [B, M, N] = sum[D](Square(Diff(x, y)))": (
        "[B, M, N]",
        lambda torch, x, y: ((x[:, :, None] - y[:, None]) ** 2).sum(-1).mT,
    ),
    "op F(x [B, N, D], y [B, M, D]) = sum[N](Turn(x)) * max[B, M](Scaled(y, mean[B, M](y)))": (
        "[B, D]",
        lambda torch, x, y: (x**2).sum(1) * (_unit(torch, y, 0.5) * y.mean((0, 1))).amax((0, 1)),
    ),
}


def _swish(torch: Any, x: Tensor) -> Tensor:  # noqa: ANN401
    return x * torch.sigmoid(2 * x)


def _unit(torch: Any, x: Tensor, eps: float = 1e-6) -> Tensor:  # noqa: ANN401
    return x / torch.sqrt((x**2).sum(-1, keepdim=True) + eps)


@pytest.mark.parametrize("line", CASES)
def test_values_and_gradients_are_those_of_torch(line: str) -> None:
    import torch

    shape, formula = CASES[line]
    head = f"block Main(x [B, N, D], y [B, M, D]) -> z {shape}"
    program = xg.compile(source=f"{DIMS}{line}{OPS}{head} {{\n    x -> F<-y : z\n}}\n")
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((2, 3, 5)), "y": rng.standard_normal((2, 4, 5))}
    given = {name: torch.tensor(array, requires_grad=True) for name, array in inputs.items()}
    expected = formula(torch, given["x"], given["y"])
    weights = rng.standard_normal(tuple(expected.shape))
    total = (expected * torch.tensor(weights)).sum() + 0 * given["x"].sum() + 0 * given["y"].sum()
    slopes = torch.autograd.grad(total, [*given.values()])
    interpreter = Interpreter(program.graphs, {})
    module: Any = program.load("numpy")
    outputs, record = interpreter.forward(inputs)
    written, saved = module.forward({}, inputs)
    runs = (
        (outputs, interpreter.backward(record, {"z": weights})),
        (written, module.backward({}, saved, {"z": weights})),
    )
    for values, found in runs:
        np.testing.assert_allclose(values["z"], expected.detach().numpy(), rtol=1e-12, atol=1e-13)
        for name, slope in zip(given, slopes, strict=True):
            np.testing.assert_allclose(found[name], slope.numpy(), rtol=1e-10, atol=1e-12)


def test_a_changed_op_changes_those_that_call_it() -> None:
    from xg.frontend.choices import CheckMemory, checked
    from xg.frontend.project import parse_project

    text = (
        "dim B\nop A(x) = 2 * B(x)\nop B(x) = {}\nblock F(x [B]) -> y [B] {{\n    x -> A : y\n}}\n"
    )
    memory = CheckMemory()
    for body, wrong in (("x + 1", 0), ("sum[D](x)", 1), ("x + 1", 0)):
        project = parse_project(text.format(body).encode())
        try:
            found = len(checked(project, memory=memory).diagnostics)
        except DiagnosticError as error:
            found = len(error.diagnostics)
        assert found == wrong


def test_doubling_calls_are_refused() -> None:
    lines = [f"op A{n + 1}(x) = A{n}(x) * A{n}(x)" for n in range(40)]
    text = "\n".join(["dim B", "op A0(x) = tanh(x)", *lines])
    with pytest.raises(DiagnosticError, match="expands to"):
        xg.compile(source=f"{text}\nblock F(x [B]) -> y [B] {{ x -> A40 : y }}\n")


RANGES = """
dim B, V, W
op Bit(i [..] in 2) = float(i) * 3
op Same(i [..] in N, j [..] in N) = equal(i, j)
op Float(i [..] in N) = float(i)
"""
BLOCK = "block Main(k [B] in {}, l [B] in {}) -> y [B] {{ k -> F<-l : y }}\n"


@pytest.mark.parametrize(
    ("ranges", "body", "told"),
    [
        (("5", "5"), "Bit(k) + Float(l)", "(?s)integers in 2 as i of Bit.*these are in 5"),
        (("V", "V"), "Bit(k) + Float(l)", "(?s)integers in 2 as i of Bit.*these are in V"),
        (("2", "2"), "Bit(k + l)", "(?s)integers in 2 as i of Bit.*computed, without a range"),
        (("2", "2"), "Bit(-k) + Float(l)", "(?s)integers in 2 as i of Bit.*without a range"),
        (("V", "W"), "select(Same(k, l), 1, 2)", "(?s)integers in V as j of Same.*are in W"),
    ],
)
def test_integers_of_another_range_are_refused_as_a_use_of_them_is(
    ranges: tuple[str, str], body: str, told: str
) -> None:
    line = "op F(k [..] in {}, l [..] in {}) = {}\n".format(*ranges, body)
    with pytest.raises(DiagnosticError, match=told):
        xg.compile(source=RANGES + line + BLOCK.format(*ranges))


@pytest.mark.parametrize(
    ("below", "body"),
    [
        ("2", "Bit(k) + Float(l)"),
        ("V", "select(Same(k, l), 1, 2)"),
        ("5", "Float(k + l) + Float(k)"),
    ],
)
def test_integers_of_the_same_range_are_taken(below: str, body: str) -> None:
    line = f"op F(k [..] in {below}, l [..] in {below}) = {body}\n"
    program = xg.compile(source=RANGES + line + BLOCK.format(below, below))
    assert program.outputs["y"].shape
