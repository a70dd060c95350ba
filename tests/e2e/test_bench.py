"""The benchmarks compare equal work, and their statistics are right."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from bench import drawing, generating, gpu, importing, waiting
from bench.__main__ import main
from bench.contestants import MAKERS, Task, make
from bench.convolutions import contestants as of_convolutions
from bench.decoders import DECODERS, Sizes
from bench.experts import contestants
from bench.loops import grus, recurrences
from bench.pairs import summary
from bench.programs import deep, flat
from bench.windows import contestants as of_windows
from numpy.typing import NDArray
from tier import THOROUGH

import xg


def _distance(first: Mapping[str, Any], second: Mapping[str, NDArray[Any]]) -> float:
    """As the contract measures: next to all gradients, for the gradient of b_K is zero."""
    assert first.keys() == second.keys()
    norms = {name: float(np.linalg.norm(array)) for name, array in first.items()}
    total = float(np.linalg.norm(list(norms.values())))
    return max(
        float(np.linalg.norm(first[name] - second[name])) / (norms[name] + 1e-2 * total)
        for name in first
    )


def test_all_contestants_compute_the_same() -> None:
    task = Task(3, 7, {"D": 12, "N_L": 2, "N_H": 3, "V": 13}, "float64")
    loss, gradients = make("NumPy by hand", task)()
    for name in MAKERS:
        if "compile" not in name:  # it takes half a minute
            other_loss, other = make(name, task)()
            assert float(other_loss) == pytest.approx(float(loss), rel=1e-12)
            assert _distance(gradients, {n: np.asarray(g) for n, g in other.items()}) < 1e-10


def test_all_layers_of_experts_compute_the_same() -> None:
    steps = contestants({"D": 12, "D_ff": 10, "N_E": 5, "k": 2}, 3, 7)
    made = {name: step() for name, step in steps.items()}
    wanted = {name: np.asarray(array) for name, array in made["xg NumPy"].items()}
    for found in made.values():
        assert _distance({n: np.asarray(a) for n, a in found.items()}, wanted) < 1e-5


def test_all_loops_compute_the_same() -> None:
    for steps in (
        recurrences({"D": 5, "N": 3}, 2, 64),
        grus({"D": 6, "D_h": 6}, 2, 7),
    ):
        made = {name: step() for name, step in steps.items()}
        wanted = {name: np.asarray(array) for name, array in made["xg NumPy, kernels"].items()}
        for found in made.values():
            assert _distance({n: np.asarray(a) for n, a in found.items()}, wanted) < 1e-5


def test_all_windows_compute_the_same() -> None:
    made = {name: step() for name, step in of_windows({"D": 6, "N_H": 2, "w": 9}, 150).items()}
    wanted = {name: np.asarray(array) for name, array in made["by hand"].items()}
    for found in made.values():
        assert _distance({n: np.asarray(a) for n, a in found.items()}, wanted) < 1e-5


def test_all_convolutions_compute_the_same() -> None:
    made = {name: step() for name, step in of_convolutions({"C": 5, "D": 7}, (2, 6, 8)).items()}
    wanted = {name: np.asarray(array) for name, array in made["xg NumPy, kernels"].items()}
    for found in made.values():
        assert _distance({n: np.asarray(a) for n, a in found.items()}, wanted) < 1e-5


def test_figures_are_drawn_to_be_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "LARGE", {"forward": 2, "backward": 1})
    found = list(drawing.measure(1))
    assert [ratio.pairs for ratio in found] == [1] * 5
    assert [ratio.target for ratio in found] == [None, None, 1.0, 1.0, 1.0]
    assert all(ratio.reference > drawing.BESIDE for ratio in found[2:4])


def test_an_import_is_timed_and_memory_is_seen(tmp_path: Path) -> None:
    """The checkpoint is nearly one table, which `-o` must read."""
    sizes = {"n_layer": 1, "n_embd": 64, "n_head": 2, "vocab_size": 40_000, "n_positions": 16}
    if THOROUGH:
        assert importing.beyond_export(importing.gpt2({**sizes, "vocab_size": 99})) > 0
    importing.gpt2(sizes).save_pretrained(tmp_path / "published")
    found = {ratio.what.partition(": ")[2]: ratio for ratio in importing.memories(tmp_path, "gpt2")}
    assert found.keys() == importing.WAYS.keys()
    assert found["-o"].seconds > found["-o"].reference > 10e6
    assert found["read"].seconds < found["-o"].seconds


# Each keeps something else from token to token; tests/models compare tokens of all families.
KEEPING = ("llama", "gemma2", "mamba", "rwkv")


@pytest.mark.parametrize("name", DECODERS if THOROUGH else KEEPING)
def test_all_write_the_same_text(name: str) -> None:
    texts = generating.contestants(name, Sizes(64, 2, 97, 12), 7, 5)
    wanted = texts["transformers"]()
    assert len(wanted) == 5
    assert all(write() == wanted for write in texts.values())


def test_what_a_gpu_is_measured_by_runs_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code, with gloo, a small model and two of the plans; torch compiles nothing."""
    monkeypatch.setattr(gpu, "PLANS", {name: gpu.PLANS[name] for name in ("HSDP", "KV")})
    task = Task(2, 16, {"D": 32, "N_L": 2, "N_H": 4, "V": 48})
    found = list(gpu.training(task, "cpu", 1, compiled=False))
    assert [ratio.unit for ratio in found] == ["s", "B"]
    assert all(ratio.seconds > 0 and ratio.reference > 0 for ratio in found)
    for ratio in [*gpu.attention(task, "cpu"), *gpu.plans("cpu")]:
        assert ratio.unit == "error"
        assert not ratio.misses, ratio


def test_contestants_on_a_gpu_train_alike() -> None:
    task = Task(2, 16, {"D": 32, "N_L": 2, "N_H": 4, "V": 48})
    losses = {
        name: [float(step()) for _ in range(4)]
        for name, make in gpu.contestants(task, "cpu").items()
        if not name.endswith("compiled")
        for step in [make()]
    }
    one, *others = losses.values()
    assert one[-1] < one[0]
    assert others
    assert all(other == pytest.approx(one, rel=1e-2) for other in others)


def test_an_error_beyond_its_bound_misses_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a rank that sends other numbers than it was given."""
    monkeypatch.setattr(gpu, "KINDS", gpu.KINDS[:1])
    monkeypatch.setattr(gpu, "_collective", Mock(return_value=0.5))
    assert next(gpu.plans("cpu")).misses


def test_without_a_gpu_its_measurement_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "is_there", lambda: False)
    monkeypatch.setattr("sys.argv", ["bench", "gpu"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    said = "gpu needs a GPU, and torch finds none on this machine; the other parts run without one"
    assert said in capsys.readouterr().err


def test_every_save_is_waited_for(tmp_path: Path) -> None:
    seconds = list(waiting.saves(tmp_path, 3))
    assert len(seconds) == 3
    assert min(seconds) > 0.01


@pytest.mark.parametrize("text", [flat(17), deep(3)])
def test_programs_compile(text: str, tmp_path: Path) -> None:
    (tmp_path / "program.xg").write_text(text, encoding="utf-8")
    assert xg.compile(tmp_path / "program.xg").params


def test_medians_and_their_interval() -> None:
    times = [(float(i), 1.0) for i in range(1, 22)]
    ratio = summary("a", "b", times, target=5)
    assert (ratio.seconds, ratio.reference, ratio.ratio) == (11.0, 1.0, 11.0)
    # The 6th and the 16th of 21 enclose the median with 97.3 %, the 7th and 15th with 92.2 %.
    assert (ratio.low, ratio.high) == (6.0, 16.0)
    assert json.loads(json.dumps(ratio.data()))["pairs"] == 21


@pytest.mark.parametrize(
    ("times", "misses"), [([1.04] * 21, False), ([1.06] * 21, True), ([1.0] * 15 + [1.2] * 6, True)]
)
def test_a_target_leaves_room_for_noise(times: list[float], misses: bool) -> None:
    assert summary("a", "b", [(time, 1.0) for time in times], target=1).misses is misses
    assert not summary("a", "b", [(time, 1.0) for time in times], target=None).misses


def test_few_pairs_give_the_whole_range() -> None:
    ratio = summary("a", "b", [(1.0, 1.0), (3.0, 1.0), (2.0, 1.0)], target=None)
    assert (ratio.low, ratio.ratio, ratio.high) == (1.0, 2.0, 3.0)
