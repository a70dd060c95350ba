"""`xg train --checkpoint-format dcp`: torch goes on with a run, and xg with what torch has made."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg
from cli.run_logs import distance

import xg as package
from xg.cli.dispatch import parse
from xg_runtime import arrays, checkpoint
from xg_runtime.ranks.launch import launch
from xg_runtime.ranks.task import Task
from xg_train.data import training_setup

NET = """\
dim B, D = 8, H = 8, N_L = 2
mesh N_D = 2, N_T = 2, N_P = 2

block Layer(X [B, D]) -> Y [B, D] {
    param W [D, H], b [H] = zeros, V [H, D]
    X -> •<=W -> ⊕<-BC(b) -> tanh -> •<=V -> ⊕<-X : Y
}
block Net(X, t [B, D]) -> loss [] {
    param γ [D] = ones
    X -> ⊙<-BC(γ) -> N_L × Layer as layers -> MSE<-t : loss
}
plan TP of Layer {
    W [D, H/N_T]
    b [H/N_T]
    V [H/N_T, D]
}
plan FSDP of Net {
    X, t [B/N_D, D]
    *    [_/N_D, ..] -> [..]
}
plan PP of Net {
    layers [N_L/N_P]
}
plan FSDP_TP = FSDP × TP
"""
RANK = Path(__file__).with_name("torch_rank.py")


@pytest.fixture
def words(folder: Path) -> list[object]:
    """The words that train the net; torch's optimizers neither warm up nor clip by themselves."""
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    draw = np.random.default_rng(0)
    rows = {name: draw.standard_normal((40, 8)) for name in ("X", "t")}
    arrays.write(folder / "rows.npz", rows)
    how = ["--batch", 4, "--dtype", "float64", "--schedule", "constant", "--eval", 0]
    how += ["--warmup", 0, "--clip", 0, "--lr", 0.1]
    return ["train", "net.xg", "--data", "rows.npz", *how]


def form_of(run: Path) -> set[str]:
    """The endings of the files of the newest checkpoint."""
    newest = max((run / "checkpoints").iterdir())
    return {path.suffix or path.name for path in newest.iterdir()}


def test_a_run_goes_on_under_other_plans_and_in_other_forms(
    xg: Xg, folder: Path, words: list[object]
) -> None:
    """Every step under another plan, on another mesh, in torch's files and once in ours."""
    assert xg(*words, "--steps", 6, "--out", "whole").code == 0
    courses: list[list[object]] = [
        ["--plan", "TP", "--checkpoint-format", "dcp"],
        ["--plan", "FSDP", "--set", "N_D=4", "--checkpoint-format", "dcp"],
        ["--plan", "TP", "--set", "N_T=4", "--checkpoint-format", "dcp"],
        ["--checkpoint-format", "dcp"],
        ["--plan", "FSDP_TP"],
        ["--checkpoint-format", "dcp"],
    ]
    for step, course in enumerate(courses, start=1):
        resume = ["--resume"] if step > 1 else []
        said = xg(*words, *course, *resume, "--steps", step, "--out", "parts")
        assert said.code == 0, said.err
        theirs = {".metadata", ".distcp", ".json"}
        ours = {".safetensors", ".json"}
        assert form_of(folder / "parts") == (theirs if "dcp" in course else ours)
    assert distance(folder / "whole", folder / "parts") < 1e-12
    found, expected = checkpoint.load(folder / "parts"), checkpoint.load(folder / "whole")
    for name, array in (expected.params | expected.slots).items():
        assert np.allclose((found.params | found.slots)[name], array, rtol=1e-11, atol=1e-13), name


def test_the_stages_of_a_pipeline_write_one(xg: Xg, folder: Path, words: list[object]) -> None:
    given = [*words, "--plan", "PP", "--accumulate", 2, "--out", "stages"]
    assert xg(*words, "--accumulate", 2, "--steps", 4, "--out", "whole").code == 0
    assert xg(*given, "--steps", 2, "--checkpoint-format", "dcp").code == 0
    assert xg(*given, "--steps", 3, "--checkpoint-format", "dcp", "--resume").code == 0
    assert form_of(folder / "stages") == {".metadata", ".distcp", ".json"}
    alone = [*words, "--accumulate", 2, "--out", "stages"]
    assert xg(*alone, "--steps", 4, "--resume").code == 0
    assert distance(folder / "whole", folder / "stages") < 1e-12


@pytest.mark.usefixtures("warm_ranks")
@pytest.mark.parametrize("kind", ["dtensors", "fully_shard"])
def test_torch_goes_on_with_a_run_and_xg_with_torchs(
    xg: Xg, folder: Path, words: list[object], kind: str
) -> None:
    """Two steps of xg under TP, two of torch on two processes, two of xg on one device."""
    assert xg(*words, "--steps", 6, "--out", "whole").code == 0
    course = ["--plan", "TP", "--on", "processes", "--backend", "torch"]
    said = xg(*words, *course, "--checkpoint-format", "dcp", "--steps", 2, "--out", "parts")
    assert said.code == 0, said.err
    lesson = training_setup(parse("train", [str(word) for word in words[1:]]))
    rows = {
        f"{step}/{name}": array
        for step in (2, 3)
        for name, array in lesson.source.batch(step).items()
    }
    plan = "FSDP" if kind == "dtensors" else None
    program = package.compile("net.xg", "Net", plan)
    run = folder / "parts" / "checkpoints"
    options = {
        "source": program.source("torch"),
        "kind": kind,
        "load": str(run / "step-00000002"),
        "save": str(run / "step-00000004"),
        "steps": [2, 3],
    }
    answers = launch(Task(f"{RANK}:go_on", options, rows), {"N_D": 2})
    assert [answer.facts["step"] for answer in answers] == [2, 2]
    shutil.rmtree(run / "step-00000002")
    assert form_of(folder / "parts") == {".metadata", ".distcp"}
    assert xg(*words, "--steps", 6, "--out", "parts", "--resume").code == 0
    found, expected = checkpoint.load(folder / "parts"), checkpoint.load(folder / "whole")
    for name, array in (expected.params | expected.slots).items():
        assert np.allclose((found.params | found.slots)[name], array, rtol=1e-10, atol=1e-12), name


def test_another_program_is_not_resumed_from_torchs_files(
    xg: Xg, folder: Path, words: list[object]
) -> None:
    assert xg(*words, "--steps", 1, "--out", "run", "--checkpoint-format", "dcp").code == 0
    (folder / "net.xg").write_text(NET.replace("tanh", "ReLU"), encoding="utf-8")
    said = xg(*words, "--steps", 2, "--out", "run", "--resume")
    assert (said.code, "cannot resume run: program was" in said.err) == (4, True), said.err
