"""The files of the playground: the same bytes each time, a policy, and a pinned runtime."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from website.playground import runtime as fetching
from website.playground.build import playground_files
from website.playground.runtime import ARCHIVE, RuntimeMissing, runtime


def test_the_files_are_complete_and_the_same_each_time() -> None:
    made = playground_files()
    assert made == playground_files()
    with ZipFile(BytesIO(made["playground/compiler.zip"])) as archive:
        names = set(archive.namelist())
    packages = ("xg/driver.py", "xg_grammar/parser.json", "xg_runtime/files.py", "lark/lark.py")
    assert {*packages, "xg/library/notation/mha.xg"} <= names
    assert "xg/figures/draw/fonts/XGSans-Bold.ttf" in names
    examples = json.loads(made["playground/examples.json"])
    assert "block MHA" in examples["examples"]["mha"]
    assert {"block", "param", "dim"} <= set(examples["words"])
    assert sum(map(len, made.values())) < 4_000_000


def test_the_policy_allows_nothing_from_elsewhere() -> None:
    page = playground_files()["playground/index.html"].decode()
    policy = page.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    rules = {rule.split()[0]: rule.split()[1:] for rule in policy.split(";")}
    assert rules.pop("default-src") == ["'none'"]
    allowed = {source for sources in rules.values() for source in sources}
    assert allowed == {"'self'", "'none'", "'wasm-unsafe-eval'", "blob:", "data:"}


def test_a_runtime_that_cannot_be_had_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_: object) -> None:
        return None

    monkeypatch.setattr(fetching.shutil, "which", nothing)
    with pytest.raises(RuntimeMissing, match="no npm"):
        runtime(tmp_path)
    (tmp_path / ARCHIVE.name).write_bytes(b"another package")
    with pytest.raises(RuntimeMissing, match="no npm"):
        runtime(tmp_path)
    monkeypatch.setattr(fetching, "_fetch", nothing)
    with pytest.raises(RuntimeMissing, match="another digest than the pinned one"):
        runtime(tmp_path)
