"""Backward passes release saved values after the last use, and only those that they own."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from bench.contestants import Task, make
from bench.memory import alone
from bench.turns import torch_peak

import xg
from xg.codegen.emit.free_saved import free_saved

FILE = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
SIZES = {"V": 13, "D": 12, "N_L": 2, "N_H": 3, "D_ff": 10, "S_max": 5}
IDS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 0, 12, 9]])


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return xg.compile(FILE, sizes=SIZES).load("torch", kernels=True)


def test_a_field_goes_behind_the_last_statement_that_reads_it() -> None:
    lines = ["B = saved.X.shape[0]", "dX = f(", "    saved.X,", ")", "dU = dX + saved.X_1"]
    written = ["dX = f(", "    saved.X,", ")", "del saved.X", "dU = dX + saved.X_1"]
    assert free_saved(lines, ["X", "X_1"]) == [lines[0], *written, "del saved.X_1"]
    assert free_saved(["return saved.X"], ["X", "Y"]) == ["return saved.X"]


LONG = """\
dim B = 2, S = 3, D = 5
block F(X [B, S, D]) -> Y [B, S, D] {
    param W_1, W_2, W_3 [D, D]
    X -> •<=W_1      : what_is_asked_of_all_places  [B, S, D]
    X -> •<=W_2      : what_all_places_answer       [B, S, D]
      -> T           : what_all_places_answer_again [B, D, S]
    X -> •<=W_3      : what_all_places_have_to_give [B, S, D]
    what_is_asked_of_all_places -> •<=what_all_places_answer_again -> SM(0.5) -> S
      -> •<=what_all_places_have_to_give : Y
}
"""


def test_fields_that_fill_a_line_go_on_several(tmp_path: Path) -> None:
    file = tmp_path / "f.xg"
    file.write_text(LONG, encoding="utf-8")
    source = xg.compile(file).source("torch", kernels=True)
    assert "del (\n        saved.what_is_asked_of_all_places," in source


def test_no_more_is_alive_than_in_a_model_by_hand() -> None:
    task = Task(2, 48, {"D": 96, "N_L": 2, "N_H": 4, "V": 64})
    ours, by_hand = (make(name, task) for name in ("xg torch, kernels", "torch SDPA"))
    ours()
    by_hand()
    assert torch_peak(ours) <= 1.02 * torch_peak(by_hand)


@pytest.mark.parametrize(("plan", "axis"), [("DP", "N_D"), ("Ring", "N_S")])
def test_no_more_is_alive_on_a_rank(plan: str, axis: str) -> None:
    """A rank of two: in half of the rows, or of the positions, as much as on one device."""
    task = Task(4, 256, {"D": 48, "N_L": 3, "N_H": 4, "V": 64})
    half = replace(task, batch=2) if plan == "DP" else replace(task, length=128)
    by_hand = make("torch SDPA", half)
    by_hand()
    program = xg.compile(FILE, sizes={**task.sizes, "S_max": 256}, plan=plan, mesh={axis: 2})
    module = program.load("torch", kernels=True)
    with alone(program.mesh):
        model = module.Model(seed=0).eval()
        ids = {"ids": IDS[:1, :1].expand(half.batch, half.length)}

        def step() -> list[Any]:
            model(**ids, t=ids["ids"])["loss"].backward()
            grads = [parameter.grad for parameter in model.parameters()]
            model.zero_grad(set_to_none=True)
            return grads

        step()
        assert torch_peak(step) <= 1.15 * torch_peak(by_hand)  # and what is on its way


def test_functions_leave_what_was_saved(module: ModuleType) -> None:
    params: Any = module.init(0, torch.float64)
    outputs, saved = module.forward(params, {"ids": IDS, "t": IDS}, seed=2)
    seeds = {"loss": torch.ones_like(outputs["loss"])}
    first, second = (module.backward(params, saved, seeds) for _ in range(2))
    assert all(torch.equal(gradient, second[name]) for name, gradient in first.items())


def test_a_retained_graph_is_run_again(module: ModuleType) -> None:
    model: Any = module.Model(0)
    loss = model(IDS, IDS, seed=2)["loss"]
    loss.backward(retain_graph=True)
    first = model.E.grad.clone()
    loss.backward()
    assert torch.equal(model.E.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_an_edge_may_be_called_like_what_takes_it_apart(tmp_path: Path) -> None:
    file = tmp_path / "f.xg"
    text = (
        "dim B = 2\nblock F(X [B]) -> Y [B] {\n    X -> GELU : self -> GELU : anew -> GELU : Y\n}\n"
    )
    file.write_text(text, encoding="utf-8")
    module = xg.compile(file).load("torch", kernels=True)
    X = torch.randn(2, dtype=torch.float64, requires_grad=True)
    model: Any = module.Model()
    assert torch.autograd.gradcheck(lambda *x: model(*x)["Y"], (X,))
