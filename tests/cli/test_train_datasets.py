"""`xg train --data FOLDER`, a stand-in for datasets; the page of integrations has the package."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli.conftest import DIAGRAMS, Xg

FILE = DIAGRAMS / "models" / "transformer.xg"
SMALL = ("--set", "N_L=1", "--set", "D=8", "--set", "N_H=2", "--set", "V=16", "--steps", 2)


class Saved(dict[str, Any]):
    """A dataset as the package gives it, as far as it is asked."""

    @property
    def column_names(self) -> list[str]:
        return list(self)

    def with_format(self, kind: str) -> dict[str, list[np.ndarray]]:
        assert kind == "numpy"
        return {name: [np.array(row) for row in rows] for name, rows in self.items()}


def loading(given: object) -> SimpleNamespace:
    """The package, which finds something in every folder."""

    def load_from_disk(path: str) -> object:
        assert Path(path).is_dir()
        return given

    return SimpleNamespace(load_from_disk=load_from_disk)


@pytest.fixture
def save(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make the package give these columns for a folder."""

    def saved(**columns: Sequence[object]) -> Path:
        (folder / "data").mkdir(exist_ok=True)
        given = SimpleNamespace(column_names=list(columns), with_format=Saved(columns).with_format)
        monkeypatch.setitem(sys.modules, "datasets", loading(given))
        return folder / "data"

    return saved


def test_rows_of_tokens_are_one_text(xg: Xg, folder: Path, save: Callable[..., Path]) -> None:
    data = save(input_ids=[[n % 16 for n in range(20 + row)] for row in range(20)], text=["a"] * 20)
    words = ("train", FILE, *SMALL, "--seq", 8, "--data", data, "--out", folder / "run")
    said = xg(*words)
    assert said.code == 0
    assert "unigram entropy" in said.out
    assert xg(*words, "--resume").code == 0
    save(input_ids=[[3] * 590])
    assert "sha256" in xg(*words, "--resume").err
    save(input_ids=[[3, 16] * 90])
    assert "input_ids in" in (err := xg(*words, "--overwrite").err)
    assert "has the token 16 at place 1, but the vocabulary ends with 15" in err
    save(input_ids=[[3, -100] * 90])
    assert "has the token -100: tokens must be 0 or more" in xg(*words, "--overwrite").err
    save(input_ids=[[0.5] * 90])
    assert "must hold integers, the tokens" in xg(*words, "--overwrite").err


def test_columns_of_the_inputs_are_rows(xg: Xg, folder: Path, save: Callable[..., Path]) -> None:
    ids = [[(n + row) % 16 for n in range(8)] for row in range(20)]
    words = ("train", FILE, *SMALL, "--data", save(ids=ids, t=ids, other=["a"] * 20))
    said = xg(*words, "--out", folder / "run")
    assert said.code == 0
    assert "rows/s" in said.out
    assert "--seq is for tokens, but" in xg(*words, "--seq", 8).err
    save(ids=[*ids[:-1], [1, 2]], t=ids)
    assert "the rows of ids in" in xg(*words, "--overwrite").err
    save(text=["a"])
    said = xg(*words)
    assert "must have the columns ids, t, or input_ids for text; found text" in said.err


def test_what_cannot_be_read_is_said(
    xg: Xg, folder: Path, save: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = save(input_ids=[[1]])
    words = ("train", FILE, *SMALL, "--data", data)
    said = xg(*words, "--level", "char")
    assert "--level splits a text, but --data has tokens already" in said.err
    monkeypatch.setitem(sys.modules, "datasets", loading({"train": data, "test": data}))
    assert f"name one of them with --data, {data}/train, {data}/test" in xg(*words).err

    def fail(path: str) -> None:
        raise FileNotFoundError("Directory is neither a dataset nor a dict")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_from_disk=fail))
    assert (
        "is no folder that `save_to_disk` of datasets wrote: Directory is neither" in xg(*words).err
    )
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "needs the package datasets: pip install 'xg[datasets]'" in xg(*words).err
