"""Routed experts by kernels, 8 of which each token has 2, against all of them and transformers."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import xg
from bench.pairs import Ratio, compare
from xg.driver import Program

Array = NDArray[Any]
Step = Callable[[], Mapping[str, Any]]
FILE: Final = Path(__file__).parents[1] / "diagrams" / "models" / "mixtral.xg"
SIZES: Final[Mapping[str, int]] = {"D": 512, "D_ff": 1024, "N_E": 8, "k": 2}
GOALS: Final = (
    ("xg torch, kernels", "xg torch", 0.4),
    ("xg torch, kernels", "transformers", 1.0),
    ("xg NumPy, kernels", "xg NumPy", 0.4),
    ("xg NumPy, kernels", "transformers", None),
)


def measure(pairs: int) -> Iterator[Ratio]:
    """Outputs and gradients of one layer of experts, routing included."""
    steps = contestants(SIZES, 2, 256)
    for name, reference, target in GOALS:
        what = f"experts: {name}"
        yield compare(what, steps[name], reference, steps[reference], pairs, target)


def contestants(sizes: Mapping[str, int], batch: int, length: int) -> dict[str, Step]:
    """All that compute a layer, by their names; the readable form computes all experts."""
    program = xg.compile(FILE, block="Experts", sizes=sizes)
    start: Any = program.load("torch").init(0)
    arrays = {name: tensor.numpy() for name, tensor in start.items()}
    rng = np.random.default_rng(0)
    shape = (batch, length, sizes["D"])
    rows, slopes = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    steps: dict[str, Step] = {"transformers": on_torch(of_transformers(start, sizes), rows, slopes)}
    for kernels in (False, True):
        name = ", kernels" if kernels else ""
        model = program.load("torch", kernels=kernels).Model()
        model.load_state_dict(start)
        steps[f"xg torch{name}"] = on_torch(model, rows, slopes)
        module = program.load("numpy", kernels=kernels)
        steps[f"xg NumPy{name}"] = on_numpy(module, arrays, rows, slopes)
    return steps


def by_kernels(
    program: Program, rows: Array, slopes: Array
) -> tuple[dict[str, Step], Mapping[str, Any]]:
    """Both passes in both libraries from one start, and the start as tensors."""
    module = program.load("torch", kernels=True)
    start: Any = module.init(0)
    model = module.Model()
    model.load_state_dict(start)
    arrays = {name: tensor.numpy() for name, tensor in start.items()}
    steps = {
        "xg torch, kernels": on_torch(model, rows, slopes),
        "xg NumPy, kernels": on_numpy(program.load("numpy", kernels=True), arrays, rows, slopes),
    }
    return steps, start


def on_torch(
    model: Any,  # noqa: ANN401 - a module or a function
    rows: Array,
    slopes: Array,
    parameters: Callable[[], Iterator[Any]] | None = None,
) -> Step:
    """Both passes of a module, which may give its output by name; a function has parameters."""
    import torch

    x, dy = torch.from_numpy(rows).clone().requires_grad_(), torch.from_numpy(slopes)

    def step() -> dict[str, Any]:
        given = model(x)
        y = given["Y"] if isinstance(given, dict) else given
        y.backward(dy)
        made = {"Y": y.detach(), "dX": x.grad}
        x.grad = None
        for parameter in (parameters or model.parameters)():
            parameter.grad = None
        return made

    return step


def on_numpy(
    module: Any,  # noqa: ANN401
    params: Mapping[str, Array],
    rows: Array,
    slopes: Array,
    output: str = "Y",
) -> Step:
    """Both passes of a NumPy module."""

    def step() -> dict[str, Any]:
        outputs, saved = module.forward(params, {"X": rows})
        made = {"Y": outputs[output]}
        return {**made, "dX": module.backward(params, saved, {output: slopes})["X"]}

    return step


def of_transformers(start: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:  # noqa: ANN401 - a module
    """The layer of transformers with the same parameters, which loops over the experts."""
    import torch

    # By name: pyright would read all models of transformers, for a minute.
    transformers: Any = import_module("transformers")
    mixtral: Any = import_module("transformers.models.mixtral.modeling_mixtral")
    config = transformers.MixtralConfig(
        hidden_size=sizes["D"],
        intermediate_size=sizes["D_ff"],
        num_local_experts=sizes["N_E"],
        num_experts_per_tok=sizes["k"],
        experts_implementation="eager",
    )
    block = mixtral.MixtralSparseMoeBlock(config)
    both = torch.cat([start["W_gate"].mT, start["W_up"].mT], dim=1)
    with torch.no_grad():
        block.gate.weight.copy_(start["W_r"].T)
        block.experts.gate_up_proj.copy_(both)
        block.experts.down_proj.copy_(start["W_down"].mT)
    return block
