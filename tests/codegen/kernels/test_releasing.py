"""Backward passes release saved values after the last use, and only those that they own."""

# torch says too little of its own types:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from bench.contestants import Task, make
from bench.memory import alone
from bench.turns import torch_peak

import xg
from xg.codegen.emit.lifetimes import (
    add_at_once,
    free_intermediates,
    free_saved_fields,
    free_variables,
)

FILE = Path(__file__).parents[3] / "diagrams" / "models" / "transformer.xg"
SIZES = {"V": 13, "D": 12, "N_L": 2, "N_H": 3, "D_ff": 10, "S_max": 5}
IDS = torch.tensor([[1, 5, 2, 7, 3], [4, 4, 0, 12, 9]])


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return xg.compile(FILE, sizes=SIZES).load("torch", kernels=True)


def test_a_field_goes_behind_the_last_statement_that_reads_it() -> None:
    lines = ["B = saved.X.shape[0]", "dX = f(", "    saved.X,", ")", "dU = dX + saved.X_1"]
    written = ["dX = f(", "    saved.X,", ")", "del saved.X", "dU = dX + saved.X_1"]
    assert free_saved_fields(lines, ["X", "X_1"]) == [lines[0], *written, "del saved.X_1"]
    assert free_saved_fields(["return saved.X"], ["X", "Y"]) == ["return saved.X"]


def test_a_variable_goes_before_the_next_call_of_a_block() -> None:
    lines = ["dZ = f(dloss)", "dY = g(dZ)", "dX = dY", "for i in range(3):", "    dX = d_a(dX)"]
    written = [*lines[:3], "del dZ, dY", *lines[3:], "dE = h(dX)"]
    assert free_variables([*lines, "dE = h(dX)"], ["dZ", "dY", "dX", "dE"]) == written
    lines = ["dZ = f(saved.dY)", "dX = d_block(", "    params, dZ", ")", "return dX, dZ.T"]
    assert free_variables(lines, ["dZ", "dX"]) == lines  # read behind it, too
    lines = ["dZ = f(dloss)", "dX = g(dZ)", "return dX"]
    assert free_variables(lines, ["dZ", "dX"]) == lines  # nothing large follows


def test_what_an_operator_has_read_goes_before_the_rest() -> None:
    lines = ["p = exp(z - lse)", "q = p * dloss", "return q - place(t)"]
    assert free_intermediates(lines) == [*lines[:2], "del p", lines[2]]
    assert free_intermediates([*lines[:2], "return q"]) == [*lines[:2], "return q"]


def test_a_gradient_is_added_where_it_is_computed() -> None:
    lines = ["dW = f(", "    saved.X, dY", ")", "db = dY.sum()", '_add(grads, "b", db)']
    (first, second) = ('_add(grads, f"{at}.W", dW)', '_add(grads, "g", dg)')
    written = [*lines[:3], first, "del dW", lines[3], lines[4], "del db", second]
    assert add_at_once([*lines, first, second]) == written
    twice = ["dW = f(dY)", "dV = dW.T", '_add(grads, "W", dW)', '_add(grads, "V", dV)']
    assert add_at_once(twice) == [*twice[:2], twice[3], "del dV", twice[2]]


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


@pytest.mark.parametrize(
    ("plan", "axis", "most"),  # and what is on its way
    [("DP", "N_D", 1.0), ("Ring", "N_S", 1.05), ("FSDP", "N_D", 1.03)],
)
def test_no_more_is_alive_on_a_rank(plan: str, axis: str, most: float) -> None:
    """A rank of two: in half of the rows, or of the positions, as much as on one device."""
    task = Task(4, 256, {"D": 48, "N_L": 3, "N_H": 4, "V": 64})
    half = replace(task, length=128) if plan == "Ring" else replace(task, batch=2)
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
        assert torch_peak(step) <= most * torch_peak(by_hand)


def test_gradients_of_a_stage_are_added_one_by_one() -> None:
    """Of the sums of all microbatches and the terms of one never more than a term is alive."""
    task = Task(1, 8, {"D": 48, "N_L": 4, "N_H": 4, "V": 64})
    program = xg.compile(FILE, sizes={**task.sizes, "S_max": 8}, plan="PP", mesh={"N_PP": 2})
    stage = program.stages[0]
    module: Any = stage.load("torch", kernels=True)
    params = module.init(0)
    cotangents = {"sent": torch.ones(1, 8, 48)}

    def step(*, apart: bool) -> Any:  # noqa: ANN401
        total: Any = None
        for _ in range(3):
            kept = [module.forward(params, {"ids": IDS[:1, :1].expand(1, 8)})[1]]
            earlier = None if apart else total
            found = module.backward_in_parts(params, kept.pop(), cotangents, None, earlier)
            if apart and total is not None:
                found = {name: total[name] + term for name, term in found.items()}
            total = found
        return total

    own = sum(each.nbytes for each in params.values())
    largest = max(each.nbytes for each in params.values())
    together, apart = (torch_peak(partial(step, apart=each)) for each in (False, True))
    assert together <= own + 4 * largest < 2 * own < apart
    whole, terms = step(apart=False), step(apart=True)
    assert all(torch.equal(whole[name], term) for name, term in terms.items())


def test_a_part_of_the_vocabulary_gets_its_gradient_without_zeros() -> None:
    source = xg.compile(FILE, plan="VP", mesh={"N_T": 2}).source("torch", kernels=True)
    assert "return _sub_at(part_2, kept, to_local_index(" in source
    assert " _place(" not in source


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
