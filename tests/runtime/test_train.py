import io
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from xg_runtime import checkpoint, log
from xg_runtime.batches import ArraySource, TextSource
from xg_runtime.config import OptimizerName, TrainConfig
from xg_runtime.errors import CheckpointError, FileError, InputError, NonFiniteError
from xg_runtime.module import Arrays, Module, Saved
from xg_runtime.optim import Adam
from xg_runtime.random import fold
from xg_runtime.train import Outcome, train

CONFIG = TrainConfig(steps=30, rate=1e-2, evaluate_every=10, checkpoint_every=10)


def run(
    module: Module,
    source: TextSource,
    folder: Path,
    config: TrainConfig = CONFIG,
    *,
    facts: dict[str, object] | None = None,
    resume: Literal["newest", "previous"] | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Train without showing progress."""
    return train(
        module,
        source,
        config,
        folder,
        facts=facts,
        resume=resume,
        overwrite=overwrite,
        stream=io.StringIO(),
    )


@dataclass(frozen=True)
class Sabotaged:
    """The module with one value spoiled from a certain forward call on."""

    module: Module
    where: str
    calls: list[int]
    name: str = "W"
    value: float = math.nan

    def init(self, seed: int = 0, dtype: object = np.float32) -> Arrays:
        return self.module.init(seed, np.float32)

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        self.calls.append(1)
        outputs, saved = self.module.forward(params, inputs, seed=seed)
        if self.where == "saved" and len(self.calls) == 5:
            saved[self.name] = saved[self.name] * np.float32(self.value)
            outputs["loss"] = np.asarray(np.nan)
        return outputs, saved

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        gradients = self.module.backward(params, saved, d_outputs)
        if self.where == "gradient" and len(self.calls) == 5:
            gradients[self.name] = gradients[self.name] * np.float32(self.value)
        return gradients


def test_the_loss_falls_below_the_unigram_entropy(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    outcome = run(bigram, source, tmp_path, replace(CONFIG, steps=150))
    assert outcome.steps == 150
    assert outcome.interrupted is None
    assert outcome.losses[0] == pytest.approx(math.log(256), abs=0.1)
    assert outcome.losses[-1] < 0.7 * source.corpus.entropy
    assert outcome.validation[-1] < 0.7 * source.corpus.entropy
    assert outcome.speed > 0


def test_the_log_has_every_step_and_evaluation(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    run(bigram, source, tmp_path)
    records = log.read(tmp_path / "log.jsonl")
    assert [record["step"] for record in records if "loss" in record] == list(range(1, 31))
    assert [record["step"] for record in records if "validation" in record] == [0, 10, 20, 30]
    assert set(records[1]) == {"step", "loss", "rate", "norm"}
    assert (tmp_path / "loss.svg").read_text().startswith("<svg")
    assert checkpoint.load(tmp_path).step == 30


def test_the_first_step_is_what_it_says(bigram: Module, source: TextSource, tmp_path: Path) -> None:
    """One step by hand: batch 0, loss, gradients, Adam without clipping."""
    config = TrainConfig(steps=1, rate=0.1, optimizer="adam", clip=None, schedule="constant")
    outcome = run(bigram, source, tmp_path, config)
    params = bigram.init(0)
    outputs, saved = bigram.forward(params, source.batch(0), seed=fold(0, "dropout", 0))
    gradients = bigram.backward(params, saved, {"loss": np.ones((), np.float32)})
    Adam().update(params, gradients, Adam().slots(params), 0.1, 0)
    assert outcome.losses == [float(outputs["loss"])]
    for name, param in params.items():
        assert np.array_equal(outcome.params[name], param)


def test_the_same_run_twice_is_the_same(bigram: Module, source: TextSource, tmp_path: Path) -> None:
    losses = [run(bigram, source, tmp_path / name).losses for name in "ab"]
    assert losses[0] == losses[1]
    other = run(bigram, source, tmp_path / "c", replace(CONFIG, seed=1))
    assert other.losses != losses[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_optimizer_trains_in_float64(
    bigram: Module, source: TextSource, tmp_path: Path, optimizer: OptimizerName
) -> None:
    rate = 1.0 if optimizer == "sgd" else 1e-2
    config = TrainConfig(steps=30, rate=rate, optimizer=optimizer, dtype="float64")
    outcome = run(bigram, source, tmp_path, config)
    assert outcome.losses[-1] < outcome.losses[0] - 0.3
    assert {param.dtype.name for param in outcome.params.values()} == {"float64"}


def test_a_folder_with_a_run_is_not_overwritten_by_accident(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    first = run(bigram, source, tmp_path)
    with pytest.raises(FileError, match="holds a run: resume it, or name another folder"):
        run(bigram, source, tmp_path)
    config = replace(CONFIG, steps=5)
    assert run(bigram, source, tmp_path, config, overwrite=True).losses != first.losses
    assert checkpoint.load(tmp_path).step == 5


def test_resuming_a_finished_run_changes_nothing(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    run(bigram, source, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run(bigram, source, tmp_path, resume="newest").steps == 30
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_a_run_at_a_constant_rate_may_be_made_longer(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    constant = replace(CONFIG, schedule="constant", steps=40)
    whole = run(bigram, source, tmp_path / "whole", constant)
    run(bigram, source, tmp_path / "longer", replace(constant, steps=20))
    longer = run(bigram, source, tmp_path / "longer", constant, resume="newest")
    assert longer.losses == whole.losses


def test_a_damaged_checkpoint_stops_and_the_previous_continues(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    whole = run(bigram, source, tmp_path)
    (tmp_path / "checkpoints" / "step-00000030" / "params.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged"):
        run(bigram, source, tmp_path, resume="newest")
    assert run(bigram, source, tmp_path, resume="previous").records == whole.records
    assert checkpoint.load(tmp_path).step == 30


def test_another_run_is_not_resumed(bigram: Module, source: TextSource, tmp_path: Path) -> None:
    run(bigram, source, tmp_path, facts={"program": "abc", "sizes": {"D": 16}})
    with pytest.raises(CheckpointError) as caught:
        run(
            bigram,
            replace(source, window=8),
            tmp_path,
            replace(CONFIG, rate=0.5),
            facts={"program": "abd", "sizes": {"D": 16}},
            resume="newest",
        )
    assert "data window was 16 and is 8" in str(caught.value)
    assert "options rate was 0.01 and is 0.5" in str(caught.value)
    assert 'program was "abc" and is "abd"' in str(caught.value)
    assert "sizes" not in str(caught.value)


def test_parameters_of_another_shape_are_not_resumed(
    bigram: Module, narrow: Module, source: TextSource, tmp_path: Path
) -> None:
    run(bigram, source, tmp_path)
    with pytest.raises(CheckpointError, match="the program's parameters have changed"):
        run(narrow, source, tmp_path, resume="newest")


def test_a_loss_that_is_not_finite_names_tensor_and_step(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    module = Sabotaged(bigram, "saved", [], name="U")
    config = replace(CONFIG, evaluate_every=0)
    with pytest.raises(NonFiniteError) as caught:
        run(module, source, tmp_path, config)
    assert str(caught.value) == ("step 5: loss is nan; the first tensor that is not finite is U")
    assert (caught.value.tensor, caught.value.step, caught.value.exit_code) == ("U", 5, 4)
    assert log.read(tmp_path / "log.jsonl")[-1]["step"] == 4
    assert "after 4 steps" in (tmp_path / "loss.svg").read_text()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_names_itself(
    bigram: Module, source: TextSource, tmp_path: Path, value: float
) -> None:
    module = Sabotaged(bigram, "gradient", [], value=value)
    with pytest.raises(NonFiniteError, match=r"step 5: the norm .* not finite is that of W$"):
        run(module, source, tmp_path, replace(CONFIG, evaluate_every=0))


def test_a_rate_that_blows_up_is_found(bigram: Module, source: TextSource, tmp_path: Path) -> None:
    config = TrainConfig(steps=50, rate=1e30, optimizer="sgd", clip=None)
    with pytest.raises(NonFiniteError, match="not finite"):
        run(bigram, source, tmp_path, config)


def test_a_loss_that_is_missing_or_has_axes_is_refused(
    bigram: Module, source: TextSource, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="the program has no output L; it has Z, loss"):
        run(bigram, source, tmp_path / "a", replace(CONFIG, loss="L"))
    with pytest.raises(
        InputError, match=r"the loss Z must be a scalar; found the shape \[4, 16, 256\]"
    ):
        run(bigram, source, tmp_path / "b", replace(CONFIG, loss="Z"))


def test_training_on_arrays(small: Module, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    ids = draw.integers(0, 23, (40, 6))
    arrays = {"ids": ids, "t": (ids + 1) % 23}
    source = ArraySource(arrays, frozenset(arrays), 8, "hash", held=8)
    outcome = train(
        small, source, replace(CONFIG, steps=100, rate=0.05), tmp_path, stream=io.StringIO()
    )
    assert outcome.validation[-1] < 0.5 * outcome.validation[0]
    assert outcome.unit == "rows"


def test_the_log_is_cut_where_it_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5}\n{"step": 3, "lo')
    assert [record["step"] for record in log.read(path)] == [1, 2]
    path.write_bytes(b'{"step": 1}\n[]\n{"step": 2}\n')
    assert [record["step"] for record in log.read(path)] == [1]
    with log.Log(path, keep_until=1) as opened:
        opened.add({"step": 2, "loss": 1.0})
        opened.sync()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"step": 1},
        {"step": 2, "loss": 1.0},
    ]
    with log.Log(path, keep_until=1):
        pass
    assert path.read_text() == '{"step": 1}\n'
