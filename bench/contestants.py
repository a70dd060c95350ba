"""Who competes in a training step, each made by its name: loss and gradients of the same model."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import xg
from bench import plain_transformer

FILE: Final = Path(__file__).parents[1] / "diagrams" / "models" / "transformer.xg"
Array = NDArray[Any]
Step = Callable[[], tuple[Any, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Task:
    """A model and a batch: sizes of the diagram, tokens, and the type of all numbers."""

    batch: int
    length: int
    sizes: Mapping[str, int]
    dtype: str = "float32"

    def program(self) -> xg.Program:
        """The model, compiled; nothing is dropped."""
        settings = {**self.sizes, "S_max": self.length}
        return xg.compile(FILE, sizes=settings)

    def params(self) -> dict[str, Array]:
        """The same start for all, nothing zero and nothing one."""
        start: dict[str, Array] = self.program().load("numpy").init(0, np.float64)
        rng = np.random.default_rng(1)
        moved = {name: a + 0.1 * rng.standard_normal(a.shape) for name, a in start.items()}
        return {name: a.astype(self.dtype) for name, a in moved.items()}

    def tokens(self) -> tuple[Array, Array]:
        """Random tokens and targets."""
        shape = (2, self.batch, self.length)
        ids, targets = np.random.default_rng(0).integers(0, self.sizes["V"], shape)
        return ids, targets


def make(name: str, task: Task) -> Step:
    """One step of a contestant."""
    return MAKERS[name](task)


def _plain(task: Task) -> Step:
    params, (ids, targets) = task.params(), task.tokens()
    return lambda: plain_transformer.loss_and_gradients(params, ids, targets, task.sizes)


def _numpy(task: Task, *, kernels: bool) -> Step:
    module = task.program().load("numpy", kernels=kernels)
    params, (ids, targets) = task.params(), task.tokens()
    one = {"loss": np.ones((), task.dtype)}

    def step() -> tuple[Array, dict[str, Array]]:
        outputs, saved = module.forward(params, {"ids": ids, "t": targets})
        return outputs["loss"], module.backward(params, saved, one)

    return step


def _torch(task: Task, *, kernels: bool, compiled: bool) -> Step:
    """The module that autograd, optimizers and `torch.compile` see."""
    import torch

    module = task.program().load("torch", kernels=kernels)
    double = torch.float64 if task.dtype == "float64" else torch.float32
    sizes = {"V": task.sizes["V"], "D": task.sizes["D"], "S_max": task.length}
    model = module.Model(dtype=double, **sizes).eval()
    start = task.params()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in start.items()})
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    run: Any = torch.compile(model, fullgraph=True) if compiled else model
    known = list(model.named_parameters())

    def step() -> tuple[Any, dict[str, Any]]:
        loss = run(ids, targets)["loss"]
        loss.backward()
        grads = {name: parameter.grad for name, parameter in known}
        for _, parameter in known:
            parameter.grad = None
        return loss.detach(), grads

    return step


def _explicit(task: Task, *, kernels: bool) -> Step:
    """Its functions, called as such: no autograd at all."""
    import torch

    module = task.program().load("torch", kernels=kernels)
    params = {name: torch.from_numpy(array) for name, array in task.params().items()}
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    one = {"loss": torch.ones((), dtype=params["E"].dtype)}

    def step() -> tuple[Any, dict[str, Any]]:
        outputs, saved = module.forward(params, {"ids": ids, "t": targets})
        return outputs["loss"], module.backward(params, saved, one)

    return step


def _by_hand(task: Task, *, way: str, compiled: bool) -> Step:
    import torch

    from bench.torch_transformer import LM

    sizes = {**task.sizes, "S_max": task.length}
    model = LM(sizes, "sdpa" if way == "sdpa" else "explicit")
    model = model.to(torch.float64 if task.dtype == "float64" else torch.float32)
    model.load(task.params())
    ids, targets = (torch.from_numpy(tokens) for tokens in task.tokens())
    known = [(name, parameter, turned) for name, parameter, turned in model.by_diagram()]
    run: Any = torch.compile(model) if compiled else model

    def step() -> tuple[Any, dict[str, Any]]:
        loss = run(ids, targets)
        loss.backward()
        grads: dict[str, Any] = {}
        for name, parameter, turned in known:
            assert parameter.grad is not None
            grads[name] = parameter.grad.T if turned else parameter.grad
            parameter.grad = None
        return loss.detach(), grads

    return step


MAKERS: Final[Mapping[str, Callable[[Task], Step]]] = {
    "NumPy by hand": _plain,
    "xg NumPy": partial(_numpy, kernels=False),
    "xg NumPy, kernels": partial(_numpy, kernels=True),
    "xg torch": partial(_torch, kernels=False, compiled=False),
    "xg torch, kernels": partial(_torch, kernels=True, compiled=False),
    "xg torch, kernels, compiled": partial(_torch, kernels=True, compiled=True),
    "xg torch, functions": partial(_explicit, kernels=True),
    "torch eager": partial(_by_hand, way="explicit", compiled=False),
    "torch SDPA": partial(_by_hand, way="sdpa", compiled=False),
    "torch compiled": partial(_by_hand, way="sdpa", compiled=True),
}
