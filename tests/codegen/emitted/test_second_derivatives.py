"""`create_graph=True` through `Model`: the derivatives of its gradients, against torch's own."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch
from codegen.emitted.test_model import FILES, Tensors, compiled, drawn
from fuzz.operator_programs import operator_programs
from tier import some
from torch import Tensor, nn
from torch.func import functional_call

import xg
from xg.driver import compile_project
from xg.frontend.project import parse_project

SEED = torch.tensor(5)  # dropout is on
Run = Callable[[Tensors, Tensors], dict[str, Tensor]]

PERCEPTRON = """\
dim B, S, D = 6, D_ff = 10
block Net(X [B, S, D], T [B, S, D]) -> loss [] {
    param γ, β [D], W [D, D_ff], b [D_ff], V [D_ff, D]
    X -> LN(γ, β) -> •<=W -> ⊕<-BC(b) -> GELU(exact) -> •<=V -> MSE<-T : loss
}
"""


class Perceptron(nn.Module):
    """The network of `PERCEPTRON`, as users of torch write it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6, dtype=torch.float64)
        self.up = nn.Linear(6, 10, dtype=torch.float64)
        self.down = nn.Linear(10, 6, bias=False, dtype=torch.float64)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        """The mean square error."""
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return nn.functional.mse_loss(self.down(hidden), target)


def scalar(outputs: dict[str, Tensor]) -> Tensor:
    """A sum of all float outputs, none of equal weight, and of their squares.

    For the squares, what is linear has second derivatives too.
    """
    floats = [y.flatten() for y in outputs.values() if y.is_floating_point()]
    flat = torch.cat(floats)
    return flat @ (torch.linspace(0.5, 1.5, len(flat), dtype=flat.dtype) + flat)


def second_derivatives(run: Run, params: Tensors, inputs: Tensors) -> list[Tensor]:
    """A gradient penalty with its gradients, and the product of the Hessian with a direction."""
    leaves = {name: x.clone().requires_grad_() for name, x in params.items()}
    given = {n: x.clone().requires_grad_(x.is_floating_point()) for n, x in inputs.items()}
    wrt = [*leaves.values(), *(x for x in given.values() if x.requires_grad)]
    first = gradients(scalar(run(leaves, given)), wrt, create_graph=True)
    penalty = torch.stack([g.square().sum() for g in first]).sum()
    direction = [torch.cos(torch.arange(x.numel(), dtype=x.dtype)).reshape(x.shape) for x in wrt]
    along = torch.stack([(g * v).sum() for g, v in zip(first, direction, strict=True)]).sum()
    of_penalty = gradients(penalty, wrt)
    return [penalty.detach(), *of_penalty, *gradients(along, wrt)]


def gradients(y: Tensor, wrt: Sequence[Tensor], *, create_graph: bool = False) -> list[Tensor]:
    """The gradient of a number, zeros where nothing depends."""
    found = torch.autograd.grad(
        y, wrt, retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return list(found)


def model_run(module: ModuleType) -> Run:
    """`Model` with other parameters, dropout on where it has any."""
    model = module.Model(0, torch.float64)
    seeded = "seed" in model.forward.__code__.co_varnames

    def run(params: Tensors, inputs: Tensors) -> dict[str, Tensor]:
        return functional_call(
            model, params, tuple(inputs.values()), {"seed": SEED} if seeded else {}
        )

    return run


def assert_equal(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    """Of one size: relative to the largest, for some are zero but for rounding."""
    largest = max(float(x.abs().max()) for x in expected)
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-11 * largest)


@pytest.mark.parametrize("name", FILES)
def test_derivatives_of_gradients_are_those_of_the_code(name: str) -> None:
    """Torch differentiates the generated forward functions twice, without any step of ours."""
    program = compiled(name)
    params, inputs = drawn(program)
    module = program.load("torch")
    forward = module.forward.__wrapped__  # without `no_grad`
    expected = second_derivatives(lambda p, x: forward(p, x, seed=SEED)[0], params, inputs)
    assert all(float(x.abs().max()) > 0 for x in (expected[0], expected[1]))
    assert_equal(second_derivatives(model_run(module), params, inputs), expected)


# Daily uses of one spelling once, whatever shapes they have.
USES = some(operator_programs(), lambda program: program[1])


@pytest.mark.parametrize("text", [pytest.param(text, id=use) for text, use in USES])
def test_derivatives_of_gradients_hold_for_every_operator(text: str) -> None:
    program = compile_project(parse_project(text.replace("dim B,", "dim B = 2,").encode()))
    params, inputs = drawn(program)
    module = program.load("torch")
    seeded = {"seed": SEED} if "seed" in inspect.signature(module.forward).parameters else {}
    forward = module.forward.__wrapped__  # without `no_grad`
    expected = second_derivatives(lambda p, x: forward(p, x, **seeded)[0], params, inputs)
    assert_equal(second_derivatives(model_run(module), params, inputs), expected)


def test_derivatives_of_gradients_are_those_of_a_module_by_hand(tmp_path: Path) -> None:
    (tmp_path / "net.xg").write_text(PERCEPTRON, encoding="utf-8")
    program = xg.compile(tmp_path / "net.xg", sizes={"B": 3, "S": 4})
    params, inputs = drawn(program)
    hand = Perceptron()

    def by_hand(given: Tensors, inputs: Tensors) -> dict[str, Tensor]:
        state = {
            "norm.weight": given["gamma"],
            "norm.bias": given["beta"],
            "up.weight": given["W"].T,
            "up.bias": given["b"],
            "down.weight": given["V"].T,
        }
        return {"loss": functional_call(hand, state, tuple(inputs.values()))}

    expected = second_derivatives(by_hand, params, inputs)
    assert_equal(second_derivatives(model_run(program.load("torch")), params, inputs), expected)


def test_a_saved_value_taken_for_a_constant_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail: without the recorded pass what was saved has no derivative."""
    program = compiled("mha")
    params, inputs = drawn(program)
    right = program.source("torch")
    recorded = "if torch.is_grad_enabled():"
    assert recorded in right
    expected = second_derivatives(model_run(program.load("torch")), params, inputs)
    from xg.codegen.backend import load

    wrong = load(right.replace(recorded, "if False:"), "planted")
    with pytest.raises(AssertionError):
        assert_equal(second_derivatives(model_run(wrong), params, inputs), expected)


def test_kernels_say_which_of_them_have_none() -> None:
    program = compiled("mha")
    params, inputs = drawn(program)
    module = program.load("torch", kernels=True)
    with pytest.raises(RuntimeError, match=r"no second derivative of layer_norm, .*attention"):
        second_derivatives(model_run(module), params, inputs)
