"""Frozen parameters and inputs, and gradients that are stopped: in proofs, code and training."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import xg
from xg.cli import main
from xg.codegen.backend import backends
from xg.cost.report import report
from xg_runtime import checkpoint, gradcheck
from xg_runtime.batches import ArraySource
from xg_runtime.config import TrainConfig
from xg_runtime.train import train

Arrays = dict[str, NDArray[Any]]

# Low-rank adapters beside frozen weights (Hu et al. 2021) over a frozen table and a frozen block,
# with a straight-through sign (Bengio et al. 2013).
TEXT = """\
mesh N_D = 2
dim B, S, D, R = 4, V, N_L = 3

op Sign(x [..]) = x + stop(select(x > 0, 1, -1) - x)

block Lin(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D] frozen, b [D] = ones frozen
    param A [D, R], Z [R, D] = zeros

    X -> •<=W -> ⊕<-BC(b)                   : H
    X -> •<=A -> Sign -> •<=Z -> ⊕<-H -> GELU : Y
}

block Teacher(X [B, S, D]) -> Y [B, S, D] {
    param W [D, D] frozen

    X -> •<=W : Y
}

block Model(ids [B, S] in V, M [B, S, D] frozen, t [B, S] in V) -> loss [] {
    param E [V, D] frozen, g [D]

    ids -> Emb(E) -> ⊕<-M -> Teacher as teacher : X_0
    X_0 -> N_L × Lin as layers              : X
    X -> stop -> ⊙<-BC(g) -> ⊕<-X           : Z
    Z -> •<=T(E)                            : logits
    logits, t -> CE                         : loss
}

plan DP of Model {
    ids, t [B/N_D, S]
    M [B/N_D, S, D]
}
"""
SIZES = {"B": 4, "S": 3, "D": 5, "V": 7}
LEARNED = {"g", *(f"layers.{i}.{name}" for i in range(3) for name in "AZ")}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of the text."""
    (tmp_path / "a.xg").write_text(TEXT, encoding="utf-8")
    return tmp_path / "a.xg"


def drawn(program: xg.Program) -> tuple[Arrays, Arrays]:
    """Parameters and inputs away from what they start as."""
    draw = np.random.default_rng(3)
    params = {
        name: draw.standard_normal([int(size) for size in spec.shape])
        for name, spec in program.params.items()
    }
    inputs: Arrays = {name: draw.integers(0, 7, (4, 3)) for name in ("ids", "t")}
    return params, {**inputs, "M": draw.standard_normal((4, 3, 5))}


def test_what_learns_has_a_gradient_and_nothing_else(path: Path) -> None:
    program = xg.compile(path, block="Model", sizes=SIZES)
    assert program.params.keys() - program.frozen == LEARNED
    assert {"M", "E", "teacher.W", "layers.2.b"} < program.frozen
    params, inputs = drawn(program)
    for backend in backends():
        for kernels in (False, True) if backend == "torch" else (False,):
            module = program.on_arrays(backend, kernels=kernels)
            _, saved = module.forward(params, inputs)
            gradients = module.backward(params, saved, {"loss": np.ones(())})
            assert gradients.keys() == LEARNED, backend
            assert all(np.any(array) for array in gradients.values()), backend


def test_gradients_are_those_of_differences_on_every_backend(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["verify", str(path), "--against", "fd,torch,jax"])
    assert code == 0, capsys.readouterr().out
    assert "Model" in capsys.readouterr().out


def test_what_is_frozen_may_have_another_type_than_what_is_checked() -> None:
    params = "param W [2, 2]\n    param V [2, 2] frozen"
    text = f"dim B\nblock F(X [B, 2]) -> Y [B, 2] {{\n    {params}\n    X -> •<=W -> •<=V : Y\n}}\n"
    program = xg.compile(source=text)
    given = {"W": np.eye(2), "V": np.ones((2, 2), np.float32)}
    report = gradcheck.check_module(
        program.on_arrays(), given, {"X": np.ones((3, 2))}, frozen=program.frozen
    )
    assert report.passed


def test_a_gradient_that_goes_through_a_stop_is_found(path: Path) -> None:
    """Differences hold what is stopped: without the stop they are others."""
    program = xg.compile(path, block="Model", sizes=SIZES)
    (path.parent / "b.xg").write_text(TEXT.replace("-> stop", ""), encoding="utf-8")
    through = xg.compile(path.parent / "b.xg", block="Model", sizes=SIZES).on_arrays()
    params, inputs = drawn(program)
    stopped = gradcheck.check_module(through, params, inputs, frozen=program.frozen)
    assert not stopped.passed  # Sign is a constant to differences of the code
    outputs, saved = through.forward(params, inputs)
    others = through.backward(params, saved, {"loss": np.ones(())})
    module = program.load()
    own, saved = module.forward(params, inputs)
    np.testing.assert_array_equal(own["loss"], outputs["loss"])
    gradients = module.backward(params, saved, {"loss": np.ones(())})
    np.testing.assert_array_equal(gradients["g"], others["g"])
    assert not np.allclose(gradients["layers.0.A"], others["layers.0.A"])


def test_a_gradient_of_something_frozen_fails_the_proof(path: Path) -> None:
    program = xg.compile(path, block="Lin", sizes=SIZES)
    (path.parent / "b.xg").write_text(TEXT.replace(" frozen", ""), encoding="utf-8")
    learning = xg.compile(path.parent / "b.xg", block="Lin", sizes=SIZES).on_arrays()
    draw = np.random.default_rng(3)
    params = {n: draw.standard_normal([int(s) for s in p.shape]) for n, p in program.params.items()}
    report = gradcheck.check_module(
        learning, params, {"X": draw.standard_normal((4, 3, 5))}, frozen=program.frozen
    )
    reasons = {row.name: row.reason for row in report.rows if row.verdict == "failed"}
    assert reasons["W"] == reasons["b"] == "there is nothing of this name to derive"


def test_a_torch_module_learns_what_is_not_frozen(path: Path) -> None:
    program = xg.compile(path, block="Model", sizes=SIZES)
    code: Any = program.load("torch")
    model = code.Model(seed=2, dtype=torch.float64, V=7, D=5)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == LEARNED
    params, inputs = drawn(program)
    model.load_state_dict({name: torch.tensor(array) for name, array in params.items()})
    given = {name: torch.tensor(array) for name, array in inputs.items()}
    given["M"].requires_grad_()
    model(**given)["loss"].backward()
    module = program.on_arrays("torch")
    _, saved = module.forward(params, inputs)
    gradients = module.backward(params, saved, {"loss": np.ones(())})
    for name, param in model.named_parameters():
        assert (param.grad is not None) == (name in LEARNED), name
        if param.grad is not None:
            np.testing.assert_allclose(param.grad.numpy(), gradients[name], rtol=1e-12)
    assert given["M"].grad is None


def test_training_leaves_frozen_parameters_and_keeps_nothing_of_them(
    path: Path, tmp_path: Path
) -> None:
    program = xg.compile(path, block="Model", sizes=SIZES)
    module = program.on_arrays()
    _, inputs = drawn(program)
    config = TrainConfig(steps=3, rate=1e-2, weight_decay=0.1, checkpoint_every=3)
    folder = tmp_path / "run"
    outcome = train(
        module,
        ArraySource(inputs, frozenset(inputs), batch_size=2, sha256=""),
        config,
        folder,
        frozen=program.frozen,
        stream=io.StringIO(),
    )
    before = module.init(config.seed, np.dtype(config.dtype))
    same = {n for n, array in before.items() if np.array_equal(array, outcome.params[n])}
    assert same == program.frozen - {"M"}
    slots = checkpoint.load(folder).slots
    assert {name.partition("/")[2] for name in slots} == LEARNED


def test_costs_count_no_gradient_of_what_is_frozen(path: Path) -> None:
    memory = report(xg.compile(path, block="Lin", sizes=SIZES).graphs).memory
    assert str(memory.gradients) == "8*D*R"
    assert str(memory.optimizer) == "16*D*R"
    assert str(memory.parameters) == "8*D*R + 4*D + 4*D^2"


def test_a_plan_sends_nothing_for_frozen_parameters(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(path), "--plan", "DP"]) == 0, capsys.readouterr().out
    capsys.readouterr()
    assert main(["show", str(path), "--plan", "DP", "--block", "Model"]) == 0
    text = capsys.readouterr().out
    sums = {line.split()[0].partition("~")[0] for line in text.splitlines() if "= AR(" in line}
    assert sums == {"dA", "dZ", "dg", "loss"}, sums
