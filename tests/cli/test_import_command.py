"""`xg import`: both files or none, and a run that gives what the model gives."""

# pyright: reportUnknownMemberType=false

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli.conftest import Xg
from torch import nn

from xg.importing.write import Written, write
from xg_runtime import arrays


@pytest.fixture
def net(folder: Path) -> nn.Module:
    """A model in a file."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.LayerNorm(9), nn.Linear(9, 4)).double()
    batch = torch.export.Dim("B", min=2)
    x = torch.randn(3, 6, dtype=torch.float64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    torch.export.save(program, folder / "net.pt2")
    return model


def test_what_was_imported_runs_and_agrees(xg: Xg, folder: Path, net: nn.Module) -> None:
    said = xg("import", "net.pt2", "-o", "net.xg", "--params", "net.safetensors", "--name", "Net")
    assert said.code == 0
    assert "outputs and gradients within 1e-08 of the model's" in said.out
    assert xg("check", "net.xg").code == 0
    assert xg("fmt", "--check", "net.xg").code == 0
    assert "block Net(" in (folder / "net.xg").read_text(encoding="utf-8")
    x = np.linspace(-1, 1, 42).reshape(7, 6)
    np.savez(folder / "in.npz", input=x)
    words = "run net.xg --inputs in.npz -o out.npz --params net.safetensors --dtype float64"
    assert xg(*words.split()).code == 0
    found = np.load(folder / "out.npz")["Y"]
    wanted = net(torch.as_tensor(x)).detach().numpy()
    assert np.abs(found - wanted).max() < 1e-12


def test_the_same_model_gives_the_same_bytes(xg: Xg, folder: Path, net: nn.Module) -> None:
    for name in ("a", "b"):
        xg("import", "net.pt2", "-o", f"{name}.xg", "--params", f"{name}.safetensors")
    for ending in ("xg", "safetensors"):
        assert (folder / f"a.{ending}").read_bytes() == (folder / f"b.{ending}").read_bytes()


def test_the_file_of_names_takes_a_checkpoint_of_the_model(
    xg: Xg, folder: Path, net: nn.Module
) -> None:
    assert xg("import", "net.pt2", "-o", "net.xg", "--params", "net.safetensors").code == 0
    tensors = {name: tensor.numpy() for name, tensor in net.state_dict().items()}
    arrays.write(folder / "held.npz", tensors)
    said = xg("weights", "net.xg", "--from", "held.npz", "-o", "p.npz", "--dtype", "float64")
    assert said.code == 0, said.err
    wanted = arrays.read(folder / "net.safetensors")
    found = arrays.read(folder / "p.npz")
    assert found.keys() == wanted.keys()
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_a_diagram_of_something_else_is_not_written(
    xg: Xg, folder: Path, net: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the import had a defect: it writes another activation than the model has."""
    from xg.importing import model

    def other(*args: Any) -> Written:  # noqa: ANN401 - what `write` takes
        made = write(*args)
        return Written(made.text.replace("GELU(exact)", "GELU"), made.weights)

    monkeypatch.setattr(model, "write", other)
    before = sorted(folder.iterdir())
    said = xg("import", "net.pt2", "-o", "out.xg", "--params", "out.npz")
    assert said.code == 1
    assert "the diagram would not be the model: output Y" in said.err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("tiny.xg -o out.xg", 1, "tiny.xg is no program of torch.export"),
        ("missing.pt2 -o out.xg", 5, "cannot read missing.pt2"),
        ("net.pt2 -o out.txt", 5, "ends in .xg"),
        ("net.pt2 -o out.xg --params out.bin", 5, "files that end in"),
        ("net.pt2", 2, "-o"),
    ],
)
def test_wrong_use_writes_nothing(
    xg: Xg, folder: Path, net: nn.Module, words: str, code: int, message: str
) -> None:
    before = sorted(folder.iterdir())
    said = xg("import", *words.split())
    assert (said.code, message in said.err) == (code, True)
    assert sorted(folder.iterdir()) == before
