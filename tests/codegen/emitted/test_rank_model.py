"""`Model` on ranks: shards as parameters, the program's own passes, the numbers of one device."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tier import some

import xg
from xg.verify.reference import interpret
from xg_runtime.errors import RankError
from xg_runtime.ranks import simulate
from xg_runtime.ranks.run_task import Place, run_task
from xg_runtime.ranks.task import Task

LM = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
SIZES = {"V": 10, "D": 12, "N_H": 2, "N_L": 2, "D_ff": 14, "S_max": 8}
MESH = {"N_D": 2, "N_T": 2}
Arrays = dict[str, NDArray[Any]]
One = tuple[Arrays, Arrays]  # parameters and inputs; what is computed with them


@pytest.fixture(scope="module")
def one() -> One:
    """Arrays to begin with, and the results of the `Model` of one device."""
    program = xg.compile(LM, sizes=SIZES)
    params = interpret.initial(program.graphs, 1)
    draw = np.random.default_rng(2)
    inputs = {name: draw.integers(0, 10, (4, 6)) for name in ("ids", "t")}
    model = program.load("torch").Model(0, torch.float64)
    model.load_state_dict({name: torch.tensor(array) for name, array in params.items()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids, t = (torch.tensor(inputs[name]) for name in ("ids", "t"))
    loss = model(ids, t, seed=3)["loss"]
    loss.backward()
    found = {"loss": loss.detach(), **{f"d/{n}": p.grad for n, p in model.named_parameters()}}
    optimizer.step()
    found |= model.state_dict()
    return params | inputs, {name: tensor.detach().numpy() for name, tensor in found.items()}


@cache
def compiled(plan: str) -> xg.Program:
    """The language model on two ranks along each axis of a plan."""
    axes = xg.compile(LM, plan=plan, sizes=SIZES, mesh={}).mesh
    return xg.compile(LM, plan=plan, sizes=SIZES, mesh={axis: MESH[axis] for axis in axes})


def ranks(
    one: One, plan: str, folder: Path, *, kernels: bool, on: Place = "simulated", without: str = ""
) -> list[Arrays]:
    """The results of every rank; `without` is a call of the code to be left out."""
    program = compiled(plan)
    sizes = dict(program.mesh)
    source, file = program.source("torch", kernels=kernels), folder / "lm_rank.py"
    if without:
        source, times = re.subn(rf"= {without}\((\w+), \"N_\w\"\)", r"= \1", source, count=1)
        assert times == 1
    file.write_text(source, encoding="utf-8")
    options = {"module": str(file), "inputs": ["ids", "t"]}
    task = Task(f"{Path(__file__).with_name('rank_model.py')}:passes", options, one[0])
    return [dict(answer.arrays) for answer in run_task(task, sizes, on=on)]


def error(found: Arrays, expected: Arrays) -> float:
    """The largest distance of an array, in terms of its size."""
    sizes = {name: float(np.linalg.norm(array)) + 1e-2 for name, array in expected.items()}
    return max(
        float(np.linalg.norm(found[name] - array)) / sizes[name] for name, array in expected.items()
    )


# Daily the first plan in both forms of code, and the others in one, by turns.
PLANS = [(plan, kernels) for plan in ("TP", "FSDP", "ZeRO1") for kernels in (False, True)]
PLANS[4:] = reversed(PLANS[4:])
TRIED = some(PLANS, lambda each: each if each[0] == "TP" else each[0])


@pytest.mark.parametrize(("plan", "kernels"), TRIED)
def test_it_computes_what_one_device_does(
    one: One, plan: str, kernels: bool, tmp_path: Path
) -> None:
    for found in ranks(one, plan, tmp_path, kernels=kernels):
        assert list(found)[2:] == list(one[1])[1:]  # the names of state_dict, in its order
        assert error(found, one[1]) < 1e-12


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize("plan", ["TP", "DP_TP"])  # two ranks and four
def test_processes_send_over_gloo(one: One, plan: str, tmp_path: Path) -> None:
    together = ranks(one, plan, tmp_path, kernels=plan == "TP", on="processes")
    assert len(together) == (2 if plan == "TP" else 4)
    for found in together:
        assert error(found, one[1]) < 1e-12
        assert np.array_equal(found["drawn"], together[0]["drawn"])  # one seed for all
        assert not np.array_equal(found["drawn"], found["loss"])


def test_a_collective_left_out_is_seen(one: One, tmp_path: Path) -> None:
    cut = ranks(one, "TP", tmp_path, kernels=False, without="all_reduce")
    assert min(error(found, one[1]) for found in cut) > 1e-3


@pytest.fixture(scope="module")
def alone() -> ModuleType:
    """A perceptron under a plan, on one rank."""
    mlp = LM.parents[1] / "notation" / "mlp.xg"
    return xg.compile(mlp, plan="TP", mesh={"N_T": 1}).load("torch")


def test_second_derivatives_are_refused(alone: ModuleType) -> None:
    def run() -> None:
        model = alone.Model()
        y = model(torch.ones(1, 2, 64), seed=1)["Y"]
        torch.autograd.grad(y.sum(), list(model.parameters()), create_graph=True)

    with pytest.raises(RankError, match="create_graph=True: no second derivative on ranks"):
        simulate({"N_T": 1}, run)


def test_torch_compile_leaves_it_as_it_is(alone: ModuleType) -> None:
    X = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(1))

    def slope(model: Any) -> torch.Tensor:  # noqa: ANN401 - a generated class, compiled or not
        return torch.autograd.grad(model(X, seed=1)["Y"].sum(), list(model.parameters()))[2]

    def run() -> bool:
        model = alone.Model()
        return torch.equal(slope(torch.compile(model, backend="eager")), slope(model))

    assert simulate({"N_T": 1}, run) == [True]


TRACED = """\
dim B, S, D = 8, D_ff = 16
mesh N_A = 2
block MLP(X [B, S, D]) -> Y [B, S, D] {
    param γ, β [D] = ones, W_up [D, D_ff], b_up [D_ff], W_down [D_ff, D]
    X -> LN(γ, β)                             : H [B, S, D]
      -> •<=W_up -> ⊕<-BC(b_up) -> GELU -> •<=W_down
      -> DO(0.5) -> ⊕<-X                      : Y
}
block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> 2 × MLP as layers : Y
}
plan SP of MLP {
    X, Y   [B, S/N_A, D]
    H      [B, S, D]
    W_up   [D, D_ff/N_A]
    b_up   [D_ff/N_A]
    W_down [D_ff/N_A, D]
}
plan FSDP of Net {
    X [B/N_A, S, D]
    * [_/N_A, ..] -> [..] again
}
"""


@pytest.mark.usefixtures("warm_ranks")
def test_torch_compile_traces_what_ranks_send(tmp_path: Path) -> None:
    """Readable code under SP, kernels under FSDP, each collective by itself: one start of ranks."""
    names = {"SP": 12, "FSDP": 12, "collectives": 8}
    modules: dict[str, str] = {}
    for plan in ("SP", "FSDP"):
        source = xg.compile(source=TRACED, plan=plan).source("torch", kernels=plan == "FSDP")
        modules[plan] = str(tmp_path / f"net_{plan}.py")
        Path(modules[plan]).write_text(source, encoding="utf-8")
    draw = np.random.default_rng(0)
    one = xg.compile(source=TRACED)
    arrays = dict(interpret.initial(one.graphs, 1)) | {"X": draw.standard_normal((2, 4, 8))}
    place = Path(__file__).with_name("rank_model.py")
    task = Task(f"{place}:traced", {"modules": modules}, arrays)
    for answer in run_task(task, {"N_A": 2}, on="processes"):
        found = dict(answer.arrays)
        runs = [name.removeprefix("run/") for name in found if name.startswith("run/")]
        assert Counter(name.partition("/")[0] for name in runs) == names
        for name in runs:
            np.testing.assert_allclose(found[f"traced/{name}"], found[f"run/{name}"], 0, 1e-12)
