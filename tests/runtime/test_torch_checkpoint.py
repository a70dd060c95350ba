"""Checkpoints in the files of torch: torch reads them, and what torch has written is read."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import format_utils
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from xg_runtime import checkpoint
from xg_runtime.batches import ArraySource
from xg_runtime.checkpoint import Checkpoint
from xg_runtime.checkpoint.manifest import Json
from xg_runtime.config import TrainConfig, facts_of, optimizer_of, schedule_of
from xg_runtime.errors import CheckpointError

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
_save, _load = (getattr(dcp, name) for name in ("save", "load"))  # half of their types are missing
_whole = getattr(format_utils, "dcp_to_torch_save")  # noqa: B009 - its type is partly unknown


class Net(nn.Module):
    """A linear layer whose parameters are W and b."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(3, 2, dtype=torch.float64))
        self.b = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.W + self.b).square().mean()


def facts(config: TrainConfig) -> Json:
    return facts_of(config, ArraySource({"x": np.zeros((4, 3))}, frozenset("x"), 2, ""), {})


def trained(config: TrainConfig, steps: int, state: Checkpoint | None = None) -> Checkpoint:
    """The state after some steps of our optimizer, on gradients that are the parameters plus 1."""
    draw = np.random.default_rng(0)
    optimizer = optimizer_of(config)
    if state is None:
        params = {"W": draw.normal(size=(3, 2)), "b": draw.normal(size=2)}
        state = Checkpoint(0, params, optimizer.slots(params), facts(config))
    for step in range(state.step, state.step + steps):
        gradients = {name: param + 1 for name, param in state.params.items()}
        optimizer.update(state.params, gradients, state.slots, schedule_of(config).rate(step), step)
    return Checkpoint(state.step + steps, state.params, state.slots, state.facts)


def by_torch(model: Net, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        for param in model.parameters():
            param.grad = param.detach() + 1
        optimizer.step()


def optimizer_like(config: TrainConfig, model: Net) -> torch.optim.Optimizer:
    """The optimizer as torch's users build it, with another rate than that of the run."""
    if config.optimizer == "sgd":
        return torch.optim.SGD(model.parameters(), 9.0, momentum=config.momentum)
    if config.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), 9.0)
    return torch.optim.AdamW([{"params": [model.W]}, {"params": [model.b], "weight_decay": 0.0}])


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize(
    "config",
    [
        TrainConfig(rate=0.1, schedule="constant"),
        TrainConfig(rate=0.1, schedule="constant", optimizer="adam"),
        TrainConfig(rate=0.1, schedule="constant", optimizer="sgd", momentum=0.5),
        TrainConfig(rate=0.1, schedule="constant", optimizer="sgd", momentum=0.0),
    ],
    ids=["adamw", "adam", "sgd", "plain sgd"],
)
def test_torch_goes_on_with_the_steps_of_its_own_optimizer(
    tmp_path: Path, config: TrainConfig, start: int
) -> None:
    """And back: what torch's `get_state_dict` gives, with our facts, goes on here."""
    folder = checkpoint.save(tmp_path, trained(config, start), "dcp")
    model = Net()
    optimizer = optimizer_like(config, model)
    weights, slots = get_state_dict(model, optimizer)
    held: dict[str, Any] = {
        "model": weights,
        "optimizer": slots,
        "train": {"step": -1, "facts": ""},
    }
    _load(held, checkpoint_id=folder, no_dist=True)
    set_state_dict(
        model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"]
    )
    assert (held["train"]["step"], optimizer.param_groups[0]["lr"]) == (start, 0.1)
    by_torch(model, optimizer, 3)
    weights, slots = get_state_dict(model, optimizer)
    held = {"model": weights, "optimizer": slots, "train": {**held["train"], "step": start + 3}}
    there = tmp_path / "checkpoints" / f"step-{start + 3:08d}"
    _save(held, checkpoint_id=there, no_dist=True)
    found = trained(config, 2, checkpoint.load(tmp_path))
    expected = trained(config, start + 5)
    assert (found.step, found.facts) == (expected.step, expected.facts)
    arrays = expected.params | expected.slots
    assert (found.params | found.slots).keys() == arrays.keys()
    for name, array in (found.params | found.slots).items():
        assert np.allclose(array, arrays[name], rtol=1e-13, atol=1e-15), name


def test_the_rate_is_that_of_the_next_step(tmp_path: Path) -> None:
    config = TrainConfig(steps=10, rate=0.1, warmup=4)
    folder = checkpoint.save(tmp_path, trained(config, 2), "dcp")
    _whole(folder, tmp_path / "whole.pt")
    groups = torch.load(tmp_path / "whole.pt")["optimizer"]["param_groups"]
    assert [group["lr"] for group in groups] == [schedule_of(config).rate(2)] * 2
    assert [(group["params"], group["weight_decay"]) for group in groups] == [
        (["W"], 0.01),
        (["b"], 0.0),
    ]


def test_the_same_state_makes_the_same_bytes(tmp_path: Path) -> None:
    state = trained(TrainConfig(), 1)
    one, two = (checkpoint.save(tmp_path / name, state, "dcp") for name in "ab")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


def of_torch(run: Path, **train: object) -> Path:
    """A checkpoint of step 7 that torch wrote, without a manifest of ours."""
    there = run / "checkpoints" / "step-00000007"
    state = {"model": {"W": torch.ones(3, 2), "b": torch.ones(2)}, "train": train}
    _save(state, checkpoint_id=there, no_dist=True)
    return there


def test_what_torch_has_written_halfway_is_none(tmp_path: Path) -> None:
    """Its index is last; a part that is gone or cut, or that says of no run, is refused too."""
    there = of_torch(tmp_path, step=7, facts="{}")
    assert checkpoint.load(tmp_path).params["W"].tolist() == [[1, 1]] * 3
    (data,) = there.glob("*.distcp")
    kept, index = data.read_bytes(), (there / ".metadata").read_bytes()
    for broken in (kept[:-1], kept[:100], b"", bytes(len(kept))):
        data.write_bytes(broken)
        with pytest.raises(CheckpointError, match=f"damaged: {data.name} "):
            checkpoint.load(tmp_path)
    data.unlink()
    with pytest.raises(CheckpointError, match=f"damaged: {data.name} is missing"):
        checkpoint.load(tmp_path)
    data.write_bytes(kept)
    (there / ".metadata").unlink()
    with pytest.raises(CheckpointError, match=r"damaged: manifest\.json is missing"):
        checkpoint.load(tmp_path)
    (there / ".metadata").write_bytes(index[:-9])
    with pytest.raises(CheckpointError, match=r"damaged: \.metadata cannot be read"):
        checkpoint.load(tmp_path)
    of_torch(tmp_path / "of no run", step=7)
    with pytest.raises(CheckpointError, match=r"torch wrote it without train\.facts, which says"):
        checkpoint.load(tmp_path / "of no run")


def test_a_part_that_the_index_lacks_is_missed(tmp_path: Path) -> None:
    there = of_torch(tmp_path, step=7, facts="{}")
    index = pickle.loads((there / ".metadata").read_bytes())
    index.state_dict_metadata["model.W"].chunks[0].sizes = torch.Size([2, 2])
    (there / ".metadata").write_bytes(pickle.dumps(index))
    with pytest.raises(CheckpointError, match=r"does not say where all of model\.W is"):
        checkpoint.load(tmp_path)


def test_an_index_is_data(tmp_path: Path) -> None:
    """A pickle that calls something, or names a file elsewhere, is refused and calls nothing."""
    there = of_torch(tmp_path, step=7, facts="{}")
    called = tmp_path / "called"

    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (called,)

    class Attribute:
        def __reduce__(self) -> tuple[Any, ...]:
            return getattr, (Path, "touch")

    kept = pickle.loads((there / ".metadata").read_bytes())
    for index in (Hostile(), Attribute()):
        (there / ".metadata").write_bytes(pickle.dumps(index))
        with pytest.raises(CheckpointError, match="is in no index"):
            checkpoint.load(tmp_path)
    assert not called.exists()
    for info in kept.storage_data.values():
        info.relative_path = f"../step-00000007/{info.relative_path}"
    (there / ".metadata").write_bytes(pickle.dumps(kept))
    with pytest.raises(CheckpointError, match="names a file elsewhere"):
        checkpoint.load(tmp_path)
