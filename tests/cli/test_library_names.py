"""Shipped diagrams by their names: `xg show mha`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import Xg

import xg as package
from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.project import named_file
from xg_runtime import arrays


@pytest.mark.parametrize("name", ["mha", "gpt2"])
def test_a_shipped_diagram_is_found_by_its_name(xg: Xg, name: str) -> None:
    assert xg("show", name).code == 0
    assert xg("check", "mlp").out == "mlp: ok\n"


def test_files_are_named_as_the_diagram_is(xg: Xg, folder: Path) -> None:
    assert xg("build", "mlp", "-o", "out", "--only", "dot").code == 0
    names = sorted(path.name for path in (folder / "out").glob("*.dot"))
    assert names == ["mlp.backward.dot", "mlp.forward.dot"]


def test_a_file_of_that_name_wins(xg: Xg, folder: Path) -> None:
    (folder / "mha").write_text("dim B\nblock Own(X [B]) -> Y [B] {\n    X -> tanh : Y\n}\n")
    assert "Own" in xg("show", "mha").out


def test_a_folder_of_that_name_hides_nothing(xg: Xg, folder: Path) -> None:
    """As `xg weights gpt2 --from gpt2` beside downloaded weights."""
    (folder / "mha").mkdir()
    assert xg("check", "mha").out == "mha: ok\n"
    (folder / "other").mkdir()
    assert "is a folder" in xg("check", "other").err


def test_the_names_of_published_weights_are_found(xg: Xg, folder: Path) -> None:
    """They are beside the shipped diagram, not in the working folder."""
    sizes = {"V": 11, "D": 4, "N_L": 1, "N_H": 2, "S_max": 5}
    params = package.compile(named_file("gpt2"), sizes=sizes).load().init()
    arrays.write(folder / "p.npz", params)
    given = [word for name, n in sizes.items() for word in ("--set", f"{name}={n}")]
    assert xg("weights", "gpt2", "--from", "p.npz", "--to", "gpt2", *given).code == 0
    said = xg("weights", "gpt2", "--from", "gpt2", "-o", "again.npz")
    assert said.code == 0, said.err
    again = arrays.read(folder / "again.npz")
    assert all(np.array_equal(again[name], value) for name, value in params.items())


def test_a_name_with_an_ending_is_that_of_a_file(xg: Xg) -> None:
    """In the wrong folder a file is missing; a diagram of that name does not take its place."""
    said = xg("show", "mha.xg")
    assert (said.code, said.out) == (5, "")
    assert "cannot read mha.xg: there is no such file" in said.err
    assert "did you mean the shipped diagram mha?" in said.err


def test_an_unknown_name_is_answered_with_a_near_one(xg: Xg) -> None:
    said = xg("check", "mla")
    assert "cannot read mla: there is no such file" in said.err
    assert "did you mean the shipped diagram mha?" in said.err or "mlp" in said.err
    assert "did you mean" not in xg("check", "zzzzzz").err


@pytest.mark.parametrize("name", ["diagrams/notation/mha.xg", "other/mha.xg", "MHA.xg", "mah.xg"])
def test_a_missing_file_is_known_by_its_stem(xg: Xg, name: str) -> None:
    said = xg("check", name).err
    assert "did you mean the shipped diagram mha? open it by its name: mha" in said


@pytest.mark.parametrize("name", ["nope.xg", "nope", "my_model.xg", "xy.xg", "sub/net.xg"])
def test_another_name_is_no_typing_slip(xg: Xg, name: str) -> None:
    assert "did you mean" not in xg("check", name).err


def test_a_program_beside_the_missing_one_comes_first(xg: Xg, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "mlps.xg").write_text("dim B\n")
    assert "did you mean sub/mlps.xg?" in xg("check", "sub/mlsp.xg").err
    assert "did you mean the shipped diagram mlp?" in xg("check", "sub/mlp.xg").err


@pytest.mark.parametrize("name", ["mine.svg", "mine.png"])
def test_a_figure_is_told_from_a_program(xg: Xg, folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"<svg/>")
    said = xg("verify", name).err
    assert f"cannot read {name}: a file {name[4:]} is no program: those are .xg files" in said
    assert said.count("error") == 1


def test_a_file_without_a_command_is_told_one(xg: Xg) -> None:
    assert "there is no command mine.xg: did you mean xg build mine.xg?" in xg("mine.xg").err


def test_a_program_is_compiled_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert package.compile("mha").graphs.main.block == "MHA"
    with pytest.raises(DiagnosticError, match="there is no such file"):
        package.compile("folder/mha")
    with pytest.raises(DiagnosticError, match=r"xg.compile\(source=…\)"):
        package.compile("dim B\nblock F(X [B]) -> Y [B] {\n    X -> tanh : Y\n}\n")
