"""Training with the state on a device of torch: here the CPU, the same code as on a GPU."""

import io
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest

import xg
from xg_runtime import checkpoint
from xg_runtime.batches import ArraySource
from xg_runtime.config import OptimizerName, TrainConfig
from xg_runtime.errors import InputError, NonFiniteError
from xg_runtime.module import Arrays, Module
from xg_runtime.step import Split, Stepper
from xg_runtime.tensor_stepper import TensorStepper
from xg_runtime.tensors import OnArrays, TorchModule
from xg_runtime.train import Outcome, train

FILE = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
SIZES = {"D": 12, "N_H": 3, "N_L": 2, "V": 11, "S_max": 7}
CONFIG = TrainConfig(
    steps=6,
    rate=1e-2,
    clip=0.5,
    dtype="float64",
    schedule="constant",
    evaluate_every=3,
    checkpoint_every=3,
    weight_decay=0.1,
)
NORM = """dim B, D = 5, H = 6, V = 4
block Net(X [B, D], t [B] in V) -> loss [] {
    param W [D, H], b [H] = zeros, g [H] = ones, c [H] = zeros, U [H, V]
    param m [H] = zeros frozen, v [H] = ones frozen
    X -> •<=W -> ⊕<-BC(b) -> BN(g, c, m, v) -> ReLU -> •<=U -> CE<-t : loss
}
"""


@pytest.fixture(scope="module")
def code() -> ModuleType:
    return xg.compile(FILE, sizes=SIZES).load("torch", kernels=True)


@pytest.fixture(scope="module")
def source() -> ArraySource:
    ids = np.random.default_rng(0).integers(0, 11, (24, 7))
    arrays = {"ids": ids, "t": (ids + 1) % 11}
    return ArraySource(arrays, frozenset(arrays), 4, "hash", held=4)


def run(
    module: Module,
    source: ArraySource,
    folder: Path,
    kind: type[Stepper],
    **options: Any,  # noqa: ANN401
) -> Outcome:
    config = cast(TrainConfig, options.pop("config", CONFIG))
    return train(module, source, config, folder, stream=io.StringIO(), stepper=kind, **options)


def both(
    code: ModuleType,
    source: ArraySource,
    folder: Path,
    **options: Any,  # noqa: ANN401
) -> tuple[Outcome, Outcome]:
    """The same run with arrays that NumPy changes, and with tensors that torch does."""
    plain = run(OnArrays(cast(TorchModule, code)), source, folder / "plain", Stepper, **options)
    placed = OnArrays(cast(TorchModule, code), device="cpu")
    return plain, run(placed, source, folder / "placed", TensorStepper, **options)


def agree(plain: Outcome, placed: Outcome) -> None:
    """Every record and every parameter and slot, as they were saved."""
    for mine, theirs in zip(placed.records, plain.records, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-10)
    held, wanted = checkpoint.load(placed.folder), checkpoint.load(plain.folder)
    assert held.slots.keys() == wanted.slots.keys()
    arrays: Mapping[str, np.ndarray[Any, Any]] = wanted.params | wanted.slots
    for name, array in arrays.items():
        found = (held.params | held.slots)[name]
        np.testing.assert_allclose(found, array, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_a_device_learns_the_same(
    code: ModuleType, source: ArraySource, tmp_path: Path, optimizer: OptimizerName
) -> None:
    plain, placed = both(code, source, tmp_path, config=replace(CONFIG, optimizer=optimizer))
    agree(plain, placed)
    start = checkpoint.load(placed.folder, previous=True).params["E"]
    assert np.abs(placed.params["E"] - start).max() > 1e-3


def test_batches_in_parts_and_frozen_parameters(
    code: ModuleType, source: ArraySource, tmp_path: Path
) -> None:
    split = Split(2, frozenset({"ids", "t"}), is_mean=True, targets="t", ignored=None)
    plain, placed = both(code, source, tmp_path, split=split, frozen={"E", "gamma"})
    agree(plain, placed)
    assert not any(name.endswith("/E") for name in checkpoint.load(placed.folder).slots)


def test_running_statistics_move(tmp_path: Path) -> None:
    file = tmp_path / "net.xg"
    file.write_text(NORM, encoding="utf-8")
    program = xg.compile(file)
    rows = np.random.default_rng(1).standard_normal((24, 5))
    arrays: Arrays = {"X": rows, "t": (rows[:, 0] > 0).astype(np.int64)}
    source = ArraySource(arrays, frozenset(arrays), 4, "hash", held=4)
    code = program.load("torch", kernels=True)
    plain, placed = both(code, source, tmp_path, frozen=program.frozen)
    agree(plain, placed)
    assert np.abs(placed.params["m"]).max() > 1e-3


def test_a_run_goes_on_from_its_checkpoint(
    code: ModuleType, source: ArraySource, tmp_path: Path
) -> None:
    whole = run(
        OnArrays(cast(TorchModule, code), device="cpu"), source, tmp_path / "whole", TensorStepper
    )
    folder = tmp_path / "parts"
    short = replace(CONFIG, steps=3)
    run(
        OnArrays(cast(TorchModule, code), device="cpu"), source, folder, TensorStepper, config=short
    )
    placed = OnArrays(cast(TorchModule, code), device="cpu")
    rest = run(placed, source, folder, TensorStepper, resume="newest")
    assert rest.losses == whole.losses
    for name, array in whole.params.items():
        assert np.array_equal(rest.params[name], array), name


def test_a_number_that_is_not_finite_is_named(
    code: ModuleType, source: ArraySource, tmp_path: Path
) -> None:
    wild = replace(CONFIG, rate=1e300, clip=None, optimizer="sgd")
    with pytest.raises(NonFiniteError) as placed:
        run(
            OnArrays(cast(TorchModule, code), device="cpu"),
            source,
            tmp_path / "a",
            TensorStepper,
            config=wild,
        )
    with pytest.raises(NonFiniteError) as plain:
        run(OnArrays(cast(TorchModule, code)), source, tmp_path / "b", Stepper, config=wild)
    assert str(placed.value) == str(plain.value)
    assert placed.value.step == plain.value.step


def test_a_loss_that_is_missing_is_refused(
    code: ModuleType, source: ArraySource, tmp_path: Path
) -> None:
    config = replace(CONFIG, loss="L", evaluate_every=0)
    with pytest.raises(InputError, match="the program has no output L; it has Z, loss"):
        run(
            OnArrays(cast(TorchModule, code), device="cpu"),
            source,
            tmp_path,
            TensorStepper,
            config=config,
        )


@pytest.mark.parametrize("kind", [Stepper, TensorStepper])
def test_products_in_bfloat16_learn_with_parameters_in_float32(
    code: ModuleType, source: ArraySource, tmp_path: Path, kind: type[Stepper]
) -> None:
    config = replace(CONFIG, dtype="float32")
    exact = run(
        OnArrays(cast(TorchModule, code)), source, tmp_path / "exact", Stepper, config=config
    )
    module = OnArrays(cast(TorchModule, code), device="cpu", autocast="bfloat16")
    rough = run(module, source, tmp_path / "rough", kind, config=config)
    assert rough.losses == pytest.approx(exact.losses, rel=0.02)
    assert rough.losses != exact.losses
    assert {array.dtype for array in rough.params.values()} == {np.dtype("float32")}
    assert math.isfinite(rough.validation[-1])
