"""The files of the playground: the same bytes each time, a policy, and a pinned runtime."""

from __future__ import annotations

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol
from zipfile import ZipFile

import pytest
from website.playground import runtime as fetching
from website.playground.answer import answer
from website.playground.build import playground_files
from website.playground.runtime import ARCHIVE, RuntimeMissing, runtime

import xg
from xg.cli import main
from xg_pages.explorer import explore


class Ask(Protocol):
    """A question to the compiler, and its answer."""

    def __call__(self, text: str, view: str = ..., do: str = ..., **more: object) -> Any: ...  # noqa: ANN401


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    """The files of the playground."""
    return playground_files()


def test_the_files_are_complete_and_the_same_each_time(made: dict[str, bytes]) -> None:
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


def test_the_policy_allows_nothing_from_elsewhere(made: dict[str, bytes]) -> None:
    page = made["playground/index.html"].decode()
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
    assert main(["build", str(mlp), "--plan", "TP", "--all", "-o", str(tmp_path / "command")]) == 0
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


MLP = """\
dim B, D = 4
mesh N_T = 2
block MLP(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> ReLU : Y
}
"""
PLAN = "plan TP of MLP {\n    W [D, D/N_T]\n}\n"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.chdir(tmp_path)

    def ask(text: str, view: str = "forward", do: str = "draw", **more: object) -> Any:  # noqa: ANN401 - JSON
        return json.loads(
            answer(json.dumps({"do": do, "name": "mlp", "text": text, "view": view, **more}))
        )

    return ask


def test_a_plan_that_is_gone_is_one_device_and_a_renamed_one_is_followed(ask: Ask) -> None:
    assert ask(MLP + PLAN, plan="TP")["plan"] == "TP"
    gone = ask(MLP, plan="TP", plans=["TP"])
    assert (gone["plan"], gone["plans"], gone["file"]) == ("", [], "mlp.forward.svg")
    renamed = ask(MLP + PLAN.replace("TP", "T"), plan="TP", plans=["TP"])
    assert (renamed["plan"], renamed["file"]) == ("T", "mlp_t.forward.svg")
    assert ask(MLP + PLAN.replace("TP", "T"), plan="TP")["plan"] == ""  # of a link
    other = PLAN.replace("TP", "DP") + PLAN.replace("TP", "T")
    assert ask(MLP + other, plan="TP", plans=["TP"])["plan"] == ""  # which of two?


def test_what_there_is_to_choose_is_there_in_spite_of_errors(ask: Ask) -> None:
    refused = ask(MLP + PLAN.replace("W [", "W_1 ["), plan="TP")
    assert refused["failed"].startswith("error[XG")
    assert (refused["blocks"], refused["plans"]) == (["MLP"], ["TP"])
    assert ask(MLP.replace(": Y\n}", ": "))["blocks"] == ["MLP"]
    assert "failed" in ask("\0")


def test_a_view_that_is_not_there_gives_way_to_the_next_and_says_why(ask: Ask) -> None:
    drawn = ask(MLP + PLAN, "jax", plan="TP")
    assert drawn["missing"] == "there is no jax code of MLP under plan TP: this is numpy"
    assert (drawn["view"], drawn["file"]) == ("numpy", "mlp_tp_numpy.py")
    assert ask(MLP, "jax")["view"] == "jax"
    drawn = ask(MLP, "overview")
    assert drawn["missing"] == "MLP calls no block, so it has no overview: this is forward"
    assert drawn["lacks"] == {"overview": "MLP calls no block, so it has no overview"}
    assert ask(MLP, "plans")["missing"] == "the text has no plan to compare: this is forward"


def test_a_size_without_a_number_gets_it_in_the_text(ask: Ask) -> None:
    for view in ("cost", "plans"):
        said = ask(MLP + PLAN, view)["data"]
        assert said.startswith("? waits for a number: write one into the text, such as `dim B = 8`")
        assert "B free (in the text: dim B = 8)" in said
        assert "--" not in said
        assert "? waits" not in ask((MLP + PLAN).replace("dim B", "dim B = 8"), view)["data"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "dim B\n", "use Layer, LM from transformer\n"])
def test_a_text_without_a_block_says_what_to_type(ask: Ask, text: str) -> None:
    words = ask(text)["nothing"]
    assert words.startswith("Nothing to draw yet: type a block, or choose an example.")
    assert "block " not in ask(text, do="check")["said"]
    assert ask(words.partition("\n\n")[2])["blocks"] == ["Gate"]


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
