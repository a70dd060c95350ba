"""All backends compute the same; one whose library is missing says how to get it."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends import writing
from cli.conftest import DIAGRAMS, Xg

from xg.codegen.backend import FORMS, backends
from xg.driver import BACKENDS
from xg_runtime import arrays


@pytest.fixture
def given(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    arrays.write(
        folder / "in.npz", {"X": draw.standard_normal((3, 4)), "t": draw.standard_normal(3)}
    )
    arrays.write(folder / "g.npz", {"loss": np.ones(())})
    return folder


def test_a_run_gives_the_same_numbers(xg: Xg, given: Path) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "--d-outputs", "g.npz", "--dropout", 3]
    for backend in BACKENDS:
        said = xg(*words, "--dtype", "float64", "-o", f"{backend}.npz", "--backend", backend)
        assert said.code == 0, said.err
    first, *others = (arrays.read(given / f"{name}.npz") for name in BACKENDS)
    for other in others:
        assert list(first) == list(other)
        assert all(np.allclose(first[name], other[name], rtol=1e-12, atol=1e-14) for name in first)


@pytest.mark.parametrize("backend", [each.name for each in backends().values() if each.runs.half])
def test_bfloat16_is_computed_and_written_wide(xg: Xg, given: Path, backend: str) -> None:
    words = ["run", "tiny.xg", "--inputs", "in.npz", "--backend", backend]
    assert xg(*words, "-o", "half.npz", "--dtype", "bfloat16").code == 0
    assert xg(*words, "-o", "full.npz").code == 0
    half, full = (arrays.read(given / f"{name}.npz")["Y"] for name in ("half", "full"))
    assert half.dtype == np.float32
    assert np.allclose(half, full, rtol=0.05, atol=0.05)
    assert not np.allclose(half, full, rtol=1e-5, atol=1e-6)


def test_numpy_has_no_bfloat16(xg: Xg, given: Path) -> None:
    said = xg("run", "tiny.xg", "--inputs", "in.npz", "-o", "out.npz", "--dtype", "bfloat16")
    assert said.code == 2
    assert "NumPy has no bfloat16" in said.err


def test_losses_are_equal_to_rounding(xg: Xg, folder: Path) -> None:
    words = ["--steps", 6, "--seq", 8, "--batch", 3, "--dtype", "float64", "--eval", 3]
    sizes = ["--set", "D=8", "--set", "N_H=2", "--set", "N_L=2", "--set", "D_ff=12"]
    for backend in BACKENDS:
        file = str(DIAGRAMS / "models" / "transformer.xg")
        said = xg("train", file, *words, *sizes, "--backend", backend, "--out", backend)
        assert said.code == 0, said.err
    losses = [_losses(folder / name / "log.jsonl") for name in BACKENDS]
    assert len(losses[0]) == 9  # six steps, and three looks at the validation text
    for other in losses[1:]:
        assert np.allclose(losses[0], other, rtol=1e-10)


def _losses(log: Path) -> list[float]:
    records: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    found = (record.get("loss", record.get("validation")) for record in records)
    return [loss for loss in found if isinstance(loss, float)]


def test_verify_against_all(xg: Xg, folder: Path) -> None:
    said = xg("verify", "tiny.xg", "--against", ",".join(["fd", *BACKENDS[1:]]))
    assert said.code == 0, said.err
    for backend in backends().values():
        assert f"{backend.title} code and interpreter agree" in said.out


@pytest.mark.parametrize("name", BACKENDS[1:])
def test_without_its_library_there_is_a_hint(
    xg: Xg, given: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    runs = backends()[name].runs
    assert util.find_spec(runs.library)
    monkeypatch.setattr("xg.codegen.backend.find_spec", lambda name: None)  # pyright: ignore
    for words in (
        ["run", "tiny.xg", "--inputs", "in.npz", "-o", "o.npz", "--backend", name],
        ["train", "tiny.xg", "--data", "in.npz", "--backend", name],
        ["verify", "tiny.xg", "--against", name],
    ):
        said = xg(*words)
        assert said.code == 1
        assert f"{runs.library} is not installed" in said.err
        assert f"pip install 'xg[{runs.extra}]'" in said.err
    assert xg("show", "tiny.xg", "--as", name).code == 0


# ---- what a backend does not write ---------------------------------------------------------------

PLANNED = """\
dim B = 4, D = 6
block Net(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W : Y
}
mesh N_D = 2
plan DP of Net {
    X [B/N_D, D]
}
"""
WITHOUT = {form: sorted(set(BACKENDS) - set(writing(form))) for form in FORMS}


@pytest.mark.parametrize("name", WITHOUT["ranks"])
def test_code_of_one_device_is_proven_beside_that_of_ranks(xg: Xg, folder: Path, name: str) -> None:
    """One command for every proof of a file with plans: each backend proves what it writes."""
    (folder / "net.xg").write_text(PLANNED, encoding="utf-8")
    said = xg("verify", "net.xg", "--against", f"single,{name}")
    assert (said.code, said.err) == (0, "")
    assert f"{backends()[name].title} code and interpreter agree" in said.out
    assert "1 parallel program: all proven" in said.out


@pytest.mark.parametrize("name", WITHOUT["ranks"])
def test_ranks_are_refused_where_a_backend_writes_none(xg: Xg, folder: Path, name: str) -> None:
    (folder / "net.xg").write_text(PLANNED, encoding="utf-8")
    arrays.write(folder / "in.npz", {"X": np.ones((4, 6))})
    plan = ["--plan", "DP"]
    before = sorted(folder.rglob("*"))
    for words in (
        ["show", "net.xg", *plan, "--as", name],
        ["build", "net.xg", *plan, "--only", f"svg,{name}"],
        ["run", "net.xg", *plan, "--inputs", "in.npz", "-o", "o.npz", "--backend", name],
        ["train", "net.xg", *plan, "--data", "in.npz", "--backend", name],
        ["verify", "net.xg", *plan, "--against", f"single,{name}"],
    ):
        said = xg(*words)
        assert (said.code, said.out) == (1, "")
        assert f"{backends()[name].title} code runs on one device, not on" in said.err
        assert f"choose {' or '.join(writing('ranks'))} instead" in said.err
    assert sorted(folder.rglob("*")) == before
    assert xg("build", "net.xg", *plan, "--all", "-o", "out").code == 0  # all that there is
    written = {path.name for path in (folder / "out").glob("*.py")}
    assert written == {f"net_dp_{each}.py" for each in writing("ranks")}


@pytest.mark.parametrize("name", WITHOUT["step"])
def test_a_step_is_refused_where_a_backend_writes_none(xg: Xg, folder: Path, name: str) -> None:
    file = str(DIAGRAMS / "models" / "llama.xg")
    for words in (
        ["show", file, "--pass", "step", "--as", name],
        ["generate", "nothing", "--backend", name],
    ):
        said = xg(*words)
        assert (said.code, said.out) == (1, "")
        assert f"{backends()[name].title} code computes whole texts" in said.err
        assert f"choose {' or '.join(writing('step'))} instead" in said.err


# ---- the code, a run of training, and text from it -----------------------------------------------

MODEL = DIAGRAMS / "models" / "transformer.xg"
TEXT = "the cat sat on the mat; the dog sat on the log. " * 40
SMALL = ["--set", "N_L=1", "--set", "D=16", "--set", "N_H=2", "--seq", 16, "--batch", 4]
LEARNING = ["--data", "text.txt", "--schedule", "constant", "--eval", 0, "--backend", "torch"]


def test_the_code_of_any_block(xg: Xg, folder: Path) -> None:
    shown = xg("show", MODEL, "--as", "torch", "--block", "Attention", "--whole")
    assert shown.code == 0
    assert "class Model(" in shown.out
    assert "def mlp(" not in shown.out
    words = ["build", MODEL, "--only", "torch", "-o", "out", "--block"]
    assert xg(*words, "Attention").out.splitlines()[0].endswith("1 file in out, 1 changed")
    (file,) = (folder / "out").iterdir()
    assert file.read_text(encoding="utf-8") == shown.out
    assert xg(*words, "Attention", "--check").code == 0
    file.write_text(shown.out.replace("q @", "q +").replace("Q @", "Q +"), encoding="utf-8")
    assert xg(*words, "Attention", "--check").code == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", MODEL, "--as", "torch", "--block", "Atention"], 1, "has no block Atention"),
        (["show", "wrong.xg", "--as", "torch"], 1, "matmul contracts D with E"),
        (["show", MODEL, "--as", "pytorch"], 2, "invalid choice: 'pytorch'"),
        (["build", MODEL, "--only", "pytorch"], 2, "'pytorch' is not one of dot, svg"),
        (["build", "wrong.xg", "--only", "torch"], 1, "matmul contracts D with E"),
        (["build", "tiny.xg", "--only", "torch", "-o", "tiny.xg"], 5, "cannot write tiny.xg"),
        (["train", MODEL, *LEARNING, "--resume"], 4, "holds no checkpoint"),
        (["train", MODEL, *LEARNING, "--dtype", "bfloat16"], 2, "invalid choice: 'bfloat16'"),
        (["train", "tiny.xg", *LEARNING, "--backend", "theano"], 2, "invalid choice: 'theano'"),
        (["generate", "nothing", "--backend", "torch"], 5, "cannot read nothing"),
        (["generate", "tiny.xg", "--backend", "torch"], 1, "cannot continue a text"),
        (["generate", MODEL, "--backend", "torch"], 2, "--weights"),
        (["demo", "nothing"], 5, "cannot read"),
    ],
)
def test_wrong_words(xg: Xg, folder: Path, words: list[object], code: int, said: str) -> None:
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    before = sorted(folder.rglob("*"))
    heard = xg(*words)
    assert (heard.code, heard.out) == (code, "")
    assert said in heard.err
    assert sorted(folder.rglob("*")) == before


def test_a_run_goes_on_bit_for_bit_and_writes(xg: Xg, folder: Path) -> None:
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    words = ["train", MODEL, *SMALL, *LEARNING]
    whole = xg(*words, "--steps", 6, "--out", "whole", "--sample", 12, "--prompt", "the ")
    assert whole.code == 0
    assert xg(*words, "--steps", 4, "--out", "parts").code == 0
    assert xg(*words, "--steps", 6, "--out", "parts", "--resume").code == 0
    last = [folder / name / "checkpoints" / "step-00000006" for name in ("whole", "parts")]
    first, second = ((each / "params.safetensors").read_bytes() for each in last)
    assert first == second
    assert _losses(folder / "whole" / "log.jsonl") == _losses(folder / "parts" / "log.jsonl")
    earlier = folder / "parts" / "checkpoints" / "step-00000004" / "params.safetensors"
    assert earlier.read_bytes() != first
    given = [xg("generate", "parts", "--tokens", 12, "--prompt", "the ", "--backend", backend)
             for backend in ("torch", "numpy")]  # fmt: skip
    assert given[0].code == 0
    assert given[0].out == given[1].out
    assert given[0].out.startswith("the ")
    assert len(given[0].out) > len("the \n")
    assert given[0].out.rstrip("\n") in whole.out
