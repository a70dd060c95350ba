"""Commands refuse pipes and devices, which may never end, and files nested too deeply."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg
from deadline import deadline

NESTED = "x = " + "[" * 5_000 + "]" * 5_000
DEVICE = "/dev/zero"


@pytest.mark.parametrize("command", ["check", "show", "build", "fmt", "cost", "verify"])
def test_a_pipe_is_no_program(xg: Xg, folder: Path, command: str) -> None:
    os.mkfifo(folder / "pipe.xg")
    with deadline(10):
        said = xg(command, "pipe.xg")
    assert said.code in (1, 5)
    assert "it is not an ordinary file" in said.err


def test_a_device_is_no_program(xg: Xg) -> None:
    with deadline(10):
        assert "it is not an ordinary file" in xg("check", DEVICE).err


@pytest.mark.parametrize("option", ["--inputs", "--params", "--names", "--d-outputs"])
def test_a_pipe_holds_no_arrays(xg: Xg, folder: Path, option: str) -> None:
    ending = "toml" if option == "--names" else "safetensors" if option == "--params" else "npz"
    os.mkfifo(folder / f"pipe.{ending}")
    np.savez(folder / "in.npz", X=np.ones((2, 4)), t=np.ones(2))
    np.savez(folder / "published.npz", W=np.ones((4, 8)), other=np.ones((4, 8)))
    given = {"--inputs": "in.npz", option: f"pipe.{ending}"}
    given |= {"--params": "published.npz"} if option == "--names" else {}
    words = [word for pair in given.items() for word in pair]
    with deadline(10):
        said = xg("run", "tiny.xg", "-o", "out.npz", *words)
    assert said.code in (1, 5)
    assert "it is not an ordinary file" in said.err


def test_brackets_nested_deeply_are_no_file_of_names(xg: Xg, folder: Path) -> None:
    (folder / "deep.toml").write_text(NESTED, encoding="utf-8")
    np.savez(folder / "in.npz", X=np.ones((2, 4)), t=np.ones(2))
    np.savez(folder / "published.npz", W=np.ones((4, 8)), other=np.ones((4, 8)))
    words = ("--inputs", "in.npz", "--params", "published.npz", "--names", "deep.toml")
    said = xg("run", "tiny.xg", "-o", "out.npz", *words)
    assert said.code == 1
    assert "deep.toml is not a file of names: its brackets are nested too deeply" in said.err
    said = xg("cost", "tiny.xg", "--set", "B=2", "--hardware", "deep.toml")
    assert said.code == 1
    assert "deep.toml is not TOML: its brackets are nested too deeply" in said.err
