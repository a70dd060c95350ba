"""`Model` of a module with kernels: mixed precision, `torch.compile`, and autograd around it."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import xg

FILE = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
SIZES = {"V": 13, "D": 12, "N_L": 2, "N_H": 3, "D_ff": 10, "S_max": 7}
IDS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 0, 12, 9]])
INPUTS = {"ids": IDS, "t": IDS.flip(0)}


@pytest.fixture(scope="module")
def modules() -> tuple[ModuleType, ModuleType]:
    program = xg.compile(FILE, sizes=SIZES)
    return program.load("torch", kernels=True), program.load("torch")


def gradients(model: Any, seed: int | None, mixed: bool = False) -> dict[str, torch.Tensor]:  # noqa: ANN401
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        loss = model(**INPUTS, seed=None if seed is None else torch.tensor(seed))["loss"]
    loss.backward()
    return {"loss": loss.detach(), **{n: p.grad.clone() for n, p in model.named_parameters()}}


@pytest.mark.parametrize("seed", [None, 3], ids=["eval", "train"])
def test_autograd_finds_what_the_readable_form_finds(
    modules: tuple[ModuleType, ModuleType], seed: int | None
) -> None:
    fast, plain = (
        module.Model(0, dtype=torch.float64).train(seed is not None) for module in modules
    )
    found, wanted = gradients(fast, seed), gradients(plain, seed)
    total = torch.stack([gradient.norm() for gradient in wanted.values()]).norm()
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() <= 1e-12 * total, name


@pytest.mark.parametrize("mixed", [False, True])
def test_a_backward_pass_is_as_precise_as_its_forward_pass(
    modules: tuple[ModuleType, ModuleType], mixed: bool
) -> None:
    model = modules[0].Model(0).eval()
    wanted = gradients(model, None, mixed)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
        loss = model(**INPUTS)["loss"]
    with torch.autocast("cpu", torch.bfloat16, enabled=not mixed):
        loss.backward()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.grad, wanted[name]), name


class Made(TorchDispatchMode):
    """Bytes of the largest zeros that are made."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: ANN401
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket in (torch.ops.aten.zeros, torch.ops.aten.zero_):
            self.largest = max(self.largest, found.untyped_storage().nbytes())
        return found


def test_no_zeros_are_made_for_an_output_that_nothing_depends_on(
    modules: tuple[ModuleType, ModuleType],
) -> None:
    for module in modules:
        model = module.Model(0).eval()
        outputs = model(**INPUTS)
        with Made() as made:
            outputs["loss"].backward()
        assert 0 < made.largest < outputs["Z"].untyped_storage().nbytes()
        logits = model(**INPUTS)["Z"]
        (gradient,) = torch.autograd.grad(logits.square().sum(), [model.E])  # the loss is the other
        assert gradient.norm() > 0


@pytest.mark.parametrize("seed", [None, 3], ids=["eval", "train"])
def test_mixed_precision_comes_near(
    modules: tuple[ModuleType, ModuleType], seed: int | None
) -> None:
    model = modules[0].Model(0).train(seed is not None)
    exact, mixed = gradients(model, seed), gradients(model, seed, mixed=True)
    total = torch.stack([gradient.norm() for gradient in exact.values()]).norm()
    for name, gradient in exact.items():
        assert mixed[name].dtype == torch.float32, name
        assert 0 < (mixed[name] - gradient).norm() <= 0.03 * total, name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, while it traces
def test_it_compiles_whole_and_once(modules: tuple[ModuleType, ModuleType]) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    model = modules[0].Model(0, dtype=torch.float64).eval()
    wanted = gradients(model, None)
    counter = CompileCounterWithBackend("aot_eager")
    fast = torch.compile(model, fullgraph=True, backend=counter)
    for _ in range(2):
        model.zero_grad()
        fast(**INPUTS)["loss"].backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, wanted[name], rtol=1e-10, atol=1e-14), name
    assert counter.frame_count == 1
