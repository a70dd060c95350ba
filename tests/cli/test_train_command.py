"""`xg train`: text and arrays, to the end, killed and resumed."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg

from xg.driver import compile_project
from xg.frontend.project import read_project
from xg.verify.proof_sizes import case
from xg.verify.reference import interpret
from xg.verify.reference import random as invented
from xg_generate.runs import place_in
from xg_runtime import arrays
from xg_runtime.step import arrays_in

MODEL = DIAGRAMS / "models" / "transformer.xg"
SMALL = ["--set", "N_L=1", "--set", "D=16", "--set", "N_H=2", "--seq", 16, "--batch", 4]
TEXT = "the cat sat on the mat; the dog sat on the log. " * 40


@pytest.fixture
def text(folder: Path) -> Path:
    (folder / "text.txt").write_text(TEXT)
    return folder


def losses(folder: Path) -> list[float]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


def test_a_language_model_learns_a_text(xg: Xg, text: Path) -> None:
    said = xg("train", MODEL, *SMALL, "--data", "text.txt", "--steps", 60, "--lr", 0.02,
              "--sample", 30, "--prompt", "the c", "--out", "run")  # fmt: skip
    assert said.code == 0
    found = losses(text / "run")
    assert np.mean(found[-5:]) < 0.6 * found[0]
    assert "unigram entropy" in said.out
    assert "\nthe c" in said.out
    assert (text / "run" / "loss.svg").read_text().startswith("<svg")
    assert "60/60" in said.err


def test_characters_make_a_smaller_vocabulary(xg: Xg, text: Path) -> None:
    words = ["--data", "text.txt", "--level", "char", "--steps", 2, "--eval", 0, "--out", "run"]
    assert xg("train", MODEL, *SMALL, *words).code == 0
    params = text / "run" / "checkpoints" / "step-00000002" / "params.safetensors"
    assert arrays.read(params)["E"].shape == (len(set(TEXT)), 16)


def test_resuming_goes_on_bit_for_bit(xg: Xg, text: Path) -> None:
    words = [MODEL, *SMALL, "--data", "text.txt", "--schedule", "constant", "--eval", 0]
    xg("train", *words, "--steps", 8, "--out", "whole")
    xg("train", *words, "--steps", 5, "--out", "parts")
    assert xg("train", *words, "--steps", 8, "--out", "parts").code == 5  # it holds a run
    assert xg("train", *words, "--steps", 8, "--out", "parts", "--resume").code == 0
    assert losses(text / "whole") == losses(text / "parts")
    said = xg("train", *words, "--steps", 9, "--out", "parts", "--resume", "--set", "act=ReLU")
    assert said.code == 4
    assert "program was" in said.err


def events(file: Path) -> list[tuple[int, bytes]]:
    """The step and the content of each event; the checksums are those of an independent table."""
    data, found = file.read_bytes(), list[tuple[int, bytes]]()
    while data:
        length = int.from_bytes(data[:8], "little")
        event = data[12 : 12 + length]
        assert data[8:12] == masked(data[:8])
        assert data[12 + length : 16 + length] == masked(event)
        assert event[0] == 9
        assert event[9] == 16
        found.append((event[10], event[11:]))  # steps below 128 are one byte
        data = data[16 + length :]
    return found


def masked(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(
        4, "little"
    )


def test_tensorboard_finds_every_number_of_the_log(xg: Xg, text: Path) -> None:
    assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17 & 0xFFFFFFFF) + 0xA282EAD8
                                    & 0xFFFFFFFF).to_bytes(4, "little")  # fmt: skip
    words = [MODEL, *SMALL, "--data", "text.txt", "--eval", 2, "--out", "run", "--tensorboard"]
    assert xg("train", *words, "--schedule", "constant", "--steps", 2).code == 0
    assert xg("train", *words, "--schedule", "constant", "--steps", 3, "--resume").code == 0
    first, second = sorted((text / "run").glob("events.out.tfevents.*"))
    for file, begun, steps in ((first, 1, {0, 1, 2}), (second, 3, {3})):
        version, session, *rest = events(file)
        assert version == (0, b"\x1a\x0dbrain.Event:2")
        assert session == (begun, b"\x3a\x02\x08\x01")
        assert {step for step, _ in rest} == steps
        for step, content in rest:
            loss = losses(text / "run")[step - 1]
            scalar = b"\x0a\x04loss\x15" + struct.pack("<f", loss)
            assert scalar in content or b"validation" in content


def test_rows_of_arrays(xg: Xg, folder: Path) -> None:
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((40, 4))
    arrays.write(folder / "rows.npz", {"X": rows, "t": rows.sum(-1)})
    words = ["--data", "rows.npz", "--steps", 80, "--lr", 0.05, "--set", "p=0"]
    assert xg("train", "tiny.xg", *words).code == 0
    found = losses(folder / "runs" / "tiny")
    assert np.mean(found[-10:]) < 0.3 * np.mean(found[:10])


def test_what_cannot_be_trained(xg: Xg, folder: Path) -> None:
    assert xg("train", "tiny.xg", "--data", "rows.npz").code == 5
    mha = DIAGRAMS / "notation" / "mha.xg"
    for data in ([], ["--data", "rows.npz"]):  # with or without any, there is no loss
        said = xg("train", mha, *data)
        assert said.code == 1
        assert "MHA gives no loss to train on: its outputs are Y; a loss is an output" in said.err
    assert "name an .npz file with X, t by --data" in xg("train", "tiny.xg").err


def test_the_loss_can_be_chosen(xg: Xg, folder: Path) -> None:
    (folder / "two.xg").write_text(
        "dim B, D = 4\nblock Net(X [B, D], t [B, D]) -> near [], far [] {\n"
        "    param W [D, D]\n    X -> •<=W : Y [B, D]\n"
        "    Y -> MSE<-t : near\n    Y -> ReLU -> MSE<-t : far\n}\n",
        encoding="utf-8",
    )
    arrays.write(folder / "rows.npz", {"X": np.ones((20, 4)), "t": np.ones((20, 4))})
    words = ["train", "two.xg", "--data", "rows.npz", "--steps", 2, "--overwrite"]
    said = xg(*words)
    assert said.code == 1
    assert "--loss must name an output to minimize: choose near, far" in said.err
    assert "Y is no output of Net that is a single float" in xg(*words, "--loss", "Y").err
    assert xg(*words, "--loss", "near").code == 0
    near = losses(folder / "runs" / "two")
    assert xg(*words, "--loss", "far").code == 0
    assert losses(folder / "runs" / "two") != near


def test_options_of_the_optimizer_are_heard(xg: Xg, text: Path) -> None:
    words = [MODEL, *SMALL, "--data", "text.txt", "--steps", 4, "--eval", 0, "--overwrite"]
    seen: list[list[float]] = []
    for own in (["--momentum", 0], ["--momentum", 0.9], ["--lr", 0.1], ["--clip", 0.01]):
        assert xg("train", *words, "--optimizer", "sgd", *own).code == 0
        seen.append(losses(text / "runs" / "transformer"))
    assert all(seen[0] != other for other in seen[2:])
    assert seen[0] != seen[1]


def test_a_vocabulary_that_is_too_small(xg: Xg, text: Path) -> None:
    said = xg("train", MODEL, *SMALL, "--data", "text.txt", "--set", "V=100")
    assert said.code == 1
    assert "ids takes 100: --set V=256 makes room" in said.err


def test_windows_that_the_model_cannot_hold(xg: Xg, text: Path) -> None:
    said = xg("train", MODEL, "--data", "text.txt", "--seq", 600)
    assert said.code == 1
    assert "S = 600 is more than S_max = 512" in said.err


def test_a_run_that_explodes_says_where(xg: Xg, text: Path) -> None:
    words = ["--data", "text.txt", "--lr", 1e30, "--clip", 0, "--warmup", 0, "--eval", 0]
    said = xg("train", MODEL, *SMALL, *words, "--steps", 5)
    assert said.code == 4
    assert "not finite" in said.err
    assert "layers_out is made in line 58 of" in said.err


@pytest.mark.parametrize("name", ["models/transformer", "examples/gru", "examples/lstm"])
def test_every_saved_tensor_is_made_in_a_line(name: str) -> None:
    """Edges without a label have one too, in blocks, in repeats and in loops over an axis."""
    path = DIAGRAMS / f"{name}.xg"
    project = read_project(path)
    program = compile_project(project, settings=case(project, None, None, {}).settings)
    inputs = invented.inputs(program.graphs, 0)
    _, saved = program.on_arrays().forward(interpret.initial(program.graphs), inputs)
    places = [place_in(program.graphs, tensor) for tensor, _ in arrays_in(saved)]
    assert places
    assert all(place and place.endswith(f" of {path}") for place in places)
