"""A run that was killed continues to the same losses, bit for bit: its log is the same bytes."""

import json
import math
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tier import THOROUGH

from xg_runtime import checkpoint, log
from xg_runtime.module import Arrays

SCRIPT = Path(__file__).parent / "trained.py"


class Runs:
    """Runs of `trained.py`, one after the other."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    def start(self, folder: Path, *options: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(SCRIPT), str(folder), *options]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)

    def finish(self, folder: Path, *options: str) -> tuple[int, str]:
        process = self.start(folder, *options)
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors


@pytest.fixture(scope="module")
def runs(environment: dict[str, str]) -> Runs:
    return Runs(environment)


@pytest.fixture(scope="module")
def whole(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert runs.finish(folder)[0] == 0
    return folder


def bits(arrays: Arrays) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def assert_same(run: Path, whole: Path) -> None:
    """Compare log, curve and every bit of the last state."""
    assert (run / "log.jsonl").read_bytes() == (whole / "log.jsonl").read_bytes()
    assert (run / "loss.svg").read_bytes() == (whole / "loss.svg").read_bytes()
    found, want = checkpoint.load(run), checkpoint.load(whole)
    assert found.step == want.step == 40
    assert bits(found.params) == bits(want.params)
    assert bits(found.slots) == bits(want.slots)


# Before a checkpoint, at one, and where tests are thorough between two and behind the last.
@pytest.mark.parametrize("step", [1, 30, *([17, 39] if THOROUGH else [])])
def test_a_killed_run_continues_bit_for_bit(
    runs: Runs, whole: Path, tmp_path: Path, step: int
) -> None:
    run = tmp_path / "killed"
    assert runs.finish(run, "--kill-at", str(step))[0] == -signal.SIGKILL
    assert log.read(run / "log.jsonl")[-1]["step"] == step
    assert runs.finish(run, "--resume")[0] == 0
    assert_same(run, whole)


# While the second checkpoint is filled; around the renames that publish one and retire the oldest.
CALLS = [
    ("fsync", 12),
    ("rename", 2),
    ("rename", 4),
    ("unlink", 4),
    ("mkdir", 6),
    ("rmdir", 1),
]
# More files of the same checkpoints.
MORE = [
    *(("fsync", number) for number in (8, 11, 13, 14, 17)),
    *(("rename", 3), ("unlink", 5), ("unlink", 6)),
]


@pytest.mark.parametrize(("call", "number"), [*CALLS, *(MORE if THOROUGH else [])])
def test_a_kill_while_a_checkpoint_is_written_is_survived(
    runs: Runs, whole: Path, tmp_path: Path, call: str, number: int
) -> None:
    run = tmp_path / "killed"
    assert runs.finish(run, "--kill-while", call, str(number))[0] == -signal.SIGKILL
    assert runs.finish(run, "--resume")[0] == 0
    assert_same(run, whole)
    assert not list(run.rglob(".*"))


def wait_for_step(run: Path, step: int) -> None:
    """Wait until the log has come to `step`."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        records = log.read(run / "log.jsonl")
        if records and records[-1]["step"] >= step:
            return
        time.sleep(0.01)
    raise AssertionError(f"no step {step} in 30 s")


def test_a_kill_from_outside_is_survived(runs: Runs, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "killed"
    for step in (3, 22):
        options = ["--slow", "0.02", *(["--resume"] if step > 3 else [])]
        process = runs.start(run, *options)
        wait_for_step(run, step)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert runs.finish(run, "--resume")[0] == 0
    assert_same(run, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_ends_after_the_step_with_a_checkpoint(
    runs: Runs, whole: Path, tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "stopped"
    process = runs.start(run, "--slow", "0.02")
    wait_for_step(run, 3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert f"interrupted by {number.name}" in errors
    last = log.read(run / "log.jsonl")[-1]["step"]
    assert 3 <= last < 40
    assert checkpoint.load(run).step == last
    assert runs.finish(run, "--resume")[0] == 0
    assert_same(run, whole)


def test_the_comparison_sees_one_bit(whole: Path, tmp_path: Path) -> None:
    """Negative control: the last bit of one loss, and of one parameter."""
    other = tmp_path / "other"
    shutil.copytree(whole, other)
    assert_same(other, whole)
    records = (other / "log.jsonl").read_text().splitlines()
    record = json.loads(records[-2])
    record["loss"] = math.nextafter(record["loss"], 9)
    records[-2] = json.dumps(record)
    (other / "log.jsonl").write_text("\n".join(records) + "\n")
    with pytest.raises(AssertionError):
        assert_same(other, whole)
