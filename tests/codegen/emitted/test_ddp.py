"""`DistributedDataParallel(Model(...))`: whole-batch gradients, sent while the rest is computed."""
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import xg
from xg.verify.reference import interpret

ROOT = Path(__file__).parents[3]
RANK = Path(__file__).with_name("ddp_rank.py")
SIZES = {"V": 11, "D": 12, "N_H": 3, "N_L": 3, "D_ff": 7, "S_max": 9}
Found = dict[str, Any]


@pytest.fixture(scope="module")
def ranks(
    tmp_path_factory: pytest.TempPathFactory, warm_program: Path
) -> tuple[list[Found], Found]:
    """The results of two processes on half a batch each, and the gradients of the whole batch."""
    folder = tmp_path_factory.mktemp("ddp")
    program = xg.compile(ROOT / "diagrams" / "models" / "transformer.xg", sizes=SIZES)
    (folder / "lm.py").write_text(program.source("torch"), encoding="utf-8")
    drawn = interpret.initial(program.graphs, 1)
    params = {name: torch.tensor(array) for name, array in drawn.items()}
    draw = np.random.default_rng(2)
    inputs = {name: torch.tensor(draw.integers(0, 11, (4, 5))) for name in ("ids", "t")}
    torch.save({"params": params, "inputs": inputs}, folder / "given.pt")
    module = program.load("torch")
    expected, saved = module.forward(params, inputs)
    gradients = module.backward(params, saved, {"loss": torch.ones_like(expected["loss"])})
    _run(folder, warm_program)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(2)], gradients


def _run(folder: Path, python: Path) -> None:
    """Both processes, over the loopback and a file; killed where they hang."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": loopback, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    said = [folder / f"said{rank}.txt" for rank in range(2)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank, file in enumerate(said):
            words = [str(python), str(RANK), str(folder), str(rank)]
            with file.open("wb") as heard:
                started.append(subprocess.Popen(words, env=environment, stderr=heard))
        codes = [process.wait(timeout=60) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert codes == [0, 0], "\n".join(file.read_text(encoding="utf-8") for file in said)


Ranks = tuple[list[Found], Found]


def _error(found: Found, kind: str, gradients: Found) -> float:
    """The largest error of a gradient, in the measure of the project."""
    whole = float(sum(g.square().sum() for g in gradients.values())) ** 0.5
    pairs = zip(found["names"], found[kind][1], strict=True)
    return max(_distance(gradient, gradients[name], whole) for name, gradient in pairs)


def _distance(a: torch.Tensor, b: torch.Tensor, whole: float) -> float:
    size = max(float(a.square().sum()), float(b.square().sum())) ** 0.5
    return float((a - b).square().sum()) ** 0.5 / (size + whole / 100)


def test_gradients_are_those_of_the_whole_batch(ranks: Ranks) -> None:
    found, gradients = ranks
    for rank in found:
        assert set(rank["names"]) == set(gradients)
        assert _error(rank, "together", gradients) < 1e-10
        assert _error(rank, "alone", gradients) > 1e-2  # a half is not the whole


def test_gradients_are_sent_while_layers_are_computed(ranks: Ranks) -> None:
    layers = ["layers.2", "layers.1", "layers.0"]
    for rank in ranks[0]:
        events, _ = rank["together"]
        assert [event for event in events if event != "bucket"] == layers
        assert events.count("bucket") > len(layers)
        for layer in layers[:-1]:  # some buckets leave before the next layer's turn
            at = events.index(layer)
            assert "bucket" in events[at : events.index(layers[layers.index(layer) + 1])], events


def test_one_step_for_everything_would_send_at_the_end(ranks: Ranks) -> None:
    for rank in ranks[0]:
        events, _ = rank["whole"]
        first = events.index("bucket")
        assert len(events[:first]) == 3
        assert set(events[first:]) == {"bucket"}
