"""The files of the playground: the same bytes each time, a policy, and a pinned runtime."""

from __future__ import annotations

import json
import re
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from website.playground import runtime as fetching
from website.playground.answer import answer
from website.playground.build import playground_files
from website.playground.runtime import ARCHIVE, RuntimeMissing, runtime

import xg
from xg.cli import main
from xg.pages.explorer import explore


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
    hashes = {source for source in allowed if source.startswith("'sha256-")}
    assert allowed - hashes == {"'self'", "'none'", "'wasm-unsafe-eval'", "blob:", "data:"}
    for name, plan in (("mha", None), ("mha", "TP"), ("mlp", None)):
        page = explore(xg.compile(f"diagrams/notation/{name}.xg", plan=plan), {}).page.decode()
        assert set(re.findall(r"'sha256-[^']+'", page.partition("</head>")[0])) <= hashes


def test_the_worker_answers_with_every_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a browser: the files of the command, its tables, and a page that gets numbers."""
    mlp = Path("diagrams/notation/mlp.xg").resolve()
    assert main(["build", str(mlp), "--plan", "TP", "-o", str(tmp_path / "command")]) == 0
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    about = {"name": "mlp", "text": mlp.read_text(encoding="utf-8"), "plan": "TP"}

    def asked(do: str, view: str) -> dict[str, str]:
        return json.loads(answer(json.dumps({"do": do, "view": view, **about})))

    seen = {view: asked("draw", view) for view in asked("draw", "forward")["views"]}
    assert {"overview", "explorer", "numpy", "torch", "plans"} <= set(seen)
    quick = seen.pop("explorer")
    assert quick["kind"] == "page"
    assert "ring bytes" in seen.pop("plans")["data"]
    assert "one step of one rank" in seen.pop("cost")["data"]
    while "plans" in (whole := asked("deepen", "explorer")):
        pass
    assert len(whole["data"]) > len(quick["data"])
    for made in (whole, *seen.values()):
        built = (tmp_path / "command" / made["file"]).read_text(encoding="utf-8")
        assert made["data"] == built, made["file"]


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
