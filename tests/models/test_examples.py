"""The shipped examples: what torch computes for each, and that each learns what it is made for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from backends import forms_of_code, with_calls
from library import shipped
from models import example_witnesses as witnesses
from models import made_data as made
from models.made_data import Arrays
from tier import THOROUGH

import xg
from xg.cli import main
from xg_runtime import arrays
from xg_runtime.optim import Adam

TOLERANCE: Final = 1e-10


@dataclass(frozen=True)
class Example:
    """A diagram, what it learns from, and what torch computes for it."""

    name: str
    rows: Callable[[np.random.Generator, int], Arrays]
    witness: Callable[[Any, Any], Mapping[str, Any]]
    block: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    steps: int = 100
    rate: float = 0.01
    falls_to: float = 0.2  # the loss, as a part of the loss that it begins with


def preferred(draw: np.random.Generator, count: int) -> Arrays:
    """Answers with log-probabilities of a first model."""
    first = {f"r_{side}": draw.normal(-12, 2, count) for side in "wl"}
    return {**made.answers(draw, count), **first}


EXAMPLES: Final = [
    Example("lstm", made.marked_numbers, witnesses.lstm, "Adder", steps=250, rate=0.02),
    Example("mixer", made.stripes, witnesses.mixer),
    Example("graph_attention", made.communities, witnesses.graph_attention, "GAT", falls_to=0.45),
    Example("unet", made.noisy_digits, witnesses.diffusion, "Diffusion", steps=60, falls_to=0.4),
    Example("perceiver", made.waves, witnesses.perceiver, "Perceiver"),
    Example(
        "lora",
        lambda draw, count: made.sequences(draw, count, step=1),
        witnesses.lora,
        sizes={"V": 11, "D": 12, "N_H": 2, "S_max": 9, "R": 3},
    ),
    Example("dpo", preferred, witnesses.dpo, "DPO"),
    Example("pinn", made.heat, witnesses.pinn, rate=0.02),
    Example("wgan_gp", made.clouds, witnesses.wgan_gp),
    Example("ttt", made.repeated, witnesses.ttt, falls_to=0.5),
    Example("hvp", made.sectors, witnesses.hvp, rate=0.1, falls_to=0.4),
]
WHOLE: Final = ("lora", "dpo")  # whose tests follow below
examples = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


@cache
def as_shipped(place: int) -> xg.Program:
    example = EXAMPLES[place]
    return xg.compile(shipped(example.name), example.block, sizes=dict(example.sizes))


def compiled(example: Example, source: str | None = None) -> xg.Program:
    if source is None:
        return as_shipped(EXAMPLES.index(example))
    return xg.compile(None, example.block, source=source, sizes=dict(example.sizes))


def drawn(program: xg.Program) -> Arrays:
    """Parameters of which none is at its start."""
    draw = np.random.default_rng(3)
    sizes = {name: tuple(map(int, spec.shape)) for name, spec in program.params.items()}
    return {name: draw.normal(0.1, 0.4, size) for name, size in sizes.items()}


@cache
def of_torch(place: int) -> tuple[Arrays, Arrays]:
    """Outputs, and the gradient of the loss by each float, as torch computes them."""
    example = EXAMPLES[place]
    program = compiled(example)
    params, given = drawn(program), example.rows(np.random.default_rng(5), 4)
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in params.items()}
    data = {name: torch.tensor(array) for name, array in given.items()}
    for array in data.values():
        array.requires_grad_(array.is_floating_point())
    outputs = example.witness(leaves, data)
    outputs["loss"].backward()
    gradients = {
        n: leaf.grad.numpy() for n, leaf in {**leaves, **data}.items() if leaf.grad is not None
    }
    return {name: output.detach().numpy() for name, output in outputs.items()}, gradients


def far(found: Any, wanted: Any) -> float:  # noqa: ANN401 - arrays
    """The largest difference, as a part of the largest number where that is above 1."""
    return float(np.abs(found - wanted).max() / max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("backend", with_calls())
@examples
def test_outputs_and_gradients_are_those_of_torch(example: Example, backend: str) -> None:
    """With kernels in one backend and without in the other, turned from one to the next."""
    program, (wanted, slopes) = compiled(example), of_torch(EXAMPLES.index(example))
    params, given = drawn(program), example.rows(np.random.default_rng(5), 4)
    learned = {name for name, spec in program.params.items() if not spec.frozen}
    turn = (EXAMPLES.index(example) + with_calls().index(backend)) % 2
    for kernels in forms_of_code(backend) if THOROUGH else [turn == 1]:
        module = program.on_arrays(backend, kernels=kernels)
        outputs, saved = module.forward(params, given)
        back = {name: np.zeros_like(array) for name, array in outputs.items()}
        gradients = module.backward(params, saved, {**back, "loss": np.ones_like(outputs["loss"])})
        for name, array in wanted.items():
            assert far(outputs[name], array) < TOLERANCE, name
        assert learned <= gradients.keys()
        assert gradients.keys() & (program.params.keys() - learned) == set()
        for name, array in gradients.items():
            assert far(array, slopes[name]) < TOLERANCE, name


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e.name not in WHOLE], ids=lambda example: example.name
)
def test_it_learns_what_the_machine_makes(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arrays.write(tmp_path / "rows.npz", example.rows(np.random.default_rng(0), 256))
    words = ["--data", "rows.npz", "--batch", "16", "--eval", "0", "--steps", str(example.steps)]
    block = ["--block", example.block] if example.block else []
    sizes = [word for name, size in example.sizes.items() for word in ("--set", f"{name}={size}")]
    given = [*words, "--lr", str(example.rate), *block, *sizes]
    assert main(["train", str(shipped(example.name)), *given]) == 0
    log = (tmp_path / "runs" / example.name / "log.jsonl").read_text(encoding="utf-8")
    losses = [record["loss"] for line in log.splitlines() if "loss" in (record := json.loads(line))]
    curve = np.array(losses).reshape(10, -1).mean(1)
    assert curve[-1] < example.falls_to * losses[0], curve
    assert (np.diff(curve) < 0.1 * losses[0]).all(), curve


ADDER: Final = """
use GRU from gru

dim B, S, D = 2, D_h = 16

block Adder(X [B, S, D], t [B]) -> z [B], loss [] {
    param W [D_h, 1], b [1] = zeros

    X -> GRU as gru              : H [B, S, D_h], h_S [B, D_h]
    h_S -> •<=W -> ⊕<-BC(b) -> R : z
      -> MSE<-t                  : loss
}
"""


def test_a_gru_learns_what_an_lstm_learns(tmp_path: Path) -> None:
    """The shipped GRU, which has no loss of its own, in a model that has one."""
    (tmp_path / "adder.xg").write_text(ADDER, encoding="utf-8")
    program = xg.compile(tmp_path / "adder.xg", "Adder")
    params = program.load().init(seed=0, dtype=np.float64)
    losses = fitted(program, params, lambda draw: made.marked_numbers(draw, 16), 250)
    assert np.mean(losses[-25:]) < 0.2 * np.mean(losses[:25])


def fitted(
    program: xg.Program, params: Arrays, rows: Callable[[np.random.Generator], Arrays], steps: int
) -> list[float]:
    """The losses of a few steps of Adam, which change the parameters that have gradients."""
    module, rule, draw = program.load(), Adam(), np.random.default_rng(1)
    learned = {n: params[n] for n, spec in program.params.items() if not spec.frozen}
    slots, losses = rule.slots(learned), list[float]()
    for step in range(steps):
        outputs, saved = module.forward(params, rows(draw))
        back = {name: np.zeros_like(array) for name, array in outputs.items()}
        gradients = module.backward(params, saved, {**back, "loss": np.ones_like(outputs["loss"])})
        rule.update(learned, gradients, slots, 0.01, step)
        losses.append(float(outputs["loss"]))
    return losses


def test_narrow_matrices_teach_a_model_another_way_to_count() -> None:
    """The model learns to count by ones; then LoRA teaches it to count by threes."""
    example = next(each for each in EXAMPLES if each.name == "lora")
    whole = shipped("lora").read_text(encoding="utf-8").replace(" frozen", "")
    params = compiled(example).load().init(seed=0, dtype=np.float64)
    first = fitted(
        compiled(example, whole), params, lambda draw: made.sequences(draw, 16, step=1), 80
    )
    assert first[-1] < 0.2 * first[0]
    kept = {name: array.copy() for name, array in params.items()}
    then = fitted(compiled(example), params, lambda draw: made.sequences(draw, 16, step=3), 120)
    assert then[0] > 1
    assert then[-1] < 0.5 * then[0]
    changed = {name for name in params if not np.array_equal(params[name], kept[name])}
    assert {name.rpartition(".")[2] for name in changed} == {"A", "Z"}
    assert sum(params[name].size for name in changed) < 0.2 * sum(map(np.size, params.values()))


def test_preferences_move_the_log_probabilities_apart() -> None:
    """Against what the model itself said before, as the paper has it."""
    example = next(each for each in EXAMPLES if each.name == "dpo")
    program, answer = compiled(example), xg.compile(shipped("dpo"), "Answer").load()
    params = program.load().init(seed=0, dtype=np.float64)
    before = {n.removeprefix("policy."): array.copy() for n, array in params.items()}

    def rows(draw: np.random.Generator) -> Arrays:
        given = made.answers(draw, 16)
        for side in "wl":
            own = {name: given[f"{name}_{side}"] for name in ("ids", "t", "keep")}
            given[f"r_{side}"] = answer.forward(before, own)[0]["y"]
        return given

    losses = fitted(program, params, rows, 60)
    assert abs(losses[0] - np.log(2)) < 1e-12  # nothing is preferred yet
    assert np.mean(losses[-10:]) < 0.3 * losses[0]
    fresh = rows(np.random.default_rng(9))
    margins = program.load().forward(params, fresh)[0]["z"]
    assert (margins > 0).mean() > 0.9
