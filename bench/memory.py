"""The bytes that a rank holds by the cost model, beside those that torch's profiler counts.

A rank is alone: torch's "fake" process group has the others, and its collectives send nothing.
"""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, Final

import xg
from bench.pairs import Ratio
from bench.turns import torch_peak
from xg.cost.stage_cost import held, stages_of
from xg.driver import Program, TensorSpec

MODELS: Final = Path(__file__).parents[1] / "diagrams" / "models"
TARGET: Final = 1.05
Sizes = Mapping[str, int]
# Small, and as deep as published models: the arrays of one step are not those of every layer.
SIZES: Final[Mapping[str, Sizes]] = {
    "transformer": {"B": 4, "S": 128, "S_max": 128, "D": 128, "N_L": 24, "N_H": 8, "V": 2048},
    "llama": {"B": 4, "S": 128, "D": 128, "N_L": 32, "N_H": 8, "N_KV": 4, "D_ff": 256, "V": 2048},
    "mixtral": {"B": 4, "S": 64, "D": 64, "N_L": 32, "N_H": 8, "N_KV": 4, "D_ff": 128, "V": 1024},
}
CASES: Final[tuple[tuple[str, str, Sizes], ...]] = (
    ("transformer", "DP", {"N_D": 2}),
    ("transformer", "SP_VP", {"N_T": 4}),
    ("transformer", "FSDP", {"N_D": 4}),
    ("transformer", "ZeRO1", {"N_D": 4}),
    ("transformer", "DP × Checkpoints", {"N_D": 2}),
    ("transformer", "Ring", {"N_S": 4}),
    ("llama", "DP", {"N_D": 2}),
    ("llama", "TP", {"N_T": 2, "N_G": 2}),
    ("llama", "FSDP", {"N_D": 4}),
    ("mixtral", "DP", {"N_D": 2}),
    ("mixtral", "EP", {"N_T": 2, "N_G": 2}),
)


def measure(pairs: int) -> Iterator[Ratio]:
    """Each case once, as no number of it varies."""
    for model, plan, mesh in CASES:
        sizes = {**SIZES[model], **mesh}
        program = xg.compile(MODELS / f"{model}.xg", plan=plan, sizes=SIZES[model], mesh=mesh)
        reports = program.costs("float32")
        bytes_ = held(stages_of(reports), {**reports[0].numbers, **sizes}, 1, 1)
        seen = float(measured(program))
        ratio = seen / bytes_
        what = f"bytes by torch: {model}, {plan}"
        yield Ratio(what, "held", seen, bytes_, ratio, ratio, ratio, 1, TARGET, "B")


def measured(program: Program) -> int:
    """The parameters and moments of a rank, and the most that a step has beside them."""
    import torch  # when it runs: the other parts of the benchmark do without

    module = program.load("torch")
    kinds = {"int": torch.int64, "float": torch.float32}

    def zeros(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
        return {
            name: torch.zeros([int(n) for n in spec.shape], dtype=kinds[spec.dtype])
            for name, spec in specs.items()
        }

    params, inputs = zeros(program.params), zeros(program.inputs)

    def step() -> tuple[Any, Mapping[str, Any]]:
        outputs, saved = module.forward(params, inputs, seed=0)
        ones = torch.ones_like(outputs["loss"])
        return outputs["loss"], module.backward(params, saved, {"loss": ones})

    with alone(program.mesh):
        step()
        peak = torch_peak(step)
    return peak + 3 * sum(each.nbytes for each in params.values())


@contextmanager
def alone(mesh: Sizes) -> Generator[None]:
    """Be the first rank of a mesh whose others do not exist."""
    import torch.distributed as dist  # as in `measured`
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from xg_runtime.ranks.process_mesh import ProcessMesh

    dist.init_process_group("fake", rank=0, world_size=prod(mesh.values()), store=FakeStore())
    try:
        sizes = tuple(mesh.values())
        with ProcessMesh(init_device_mesh("cpu", sizes, mesh_dim_names=tuple(mesh))):
            yield
    finally:
        dist.destroy_process_group()
