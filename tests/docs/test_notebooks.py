"""The cells of the page about notebooks, run by a real kernel and read back from the saved file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any, cast

import nbformat
import pytest
from nbclient import NotebookClient

import xg
from xg.notebook import explorer

ROOT = Path(__file__).parents[2]
CELLS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/notebooks.md").read_text("utf-8"), re.DOTALL
)
WRONG = "%%xg\ndim B\nblock F(X [B]) -> Y [B] {\n    X -> Nothing : Y\n}"
MISUSED = "%%xg 3x\ndim B\nblock F(X [B]) -> Y [B] {\n    X -> ReLU : Y\n}"
PLANNED = """\
%%xg both --plan 'DP × TP'
dim B = 4, D = 6, E = 8
mesh N_D = 2, N_T = 2
block F(X [B, D]) -> Y [B, E] {
    param W [D, E]
    X -> •<=W : Y
}
plan DP of F {
    X [B/N_D, D]
}
plan TP of F {
    W [D, E/N_T]
}
"""
UNQUOTED = PLANNED.replace("TP'", "TP", 1)
TWO = "%%xg\ndim B\n" + "".join(
    f"block {name}(X [B]) -> Y [B] {{\n    X -> ReLU : Y\n}}\n" for name in ("First", "Second")
)
EXPLORED = "%%xg --explore\ndim B = 3\nblock F(X [B]) -> Y [B] {\n    X -> ReLU : Y\n}"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The outputs of each cell in the file of the executed notebook."""
    new: Any = nbformat.v4
    cells = [
        new.new_code_cell(text)
        for text in (*CELLS, TWO, PLANNED, UNQUOTED, WRONG, MISUSED, EXPLORED)
    ]
    notebook = new.new_notebook(cells=cells)
    folder = tmp_path_factory.mktemp("notebook")
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}})
    client.execute()
    text: str = new.writes(notebook)
    (folder / "saved.ipynb").write_text(text, encoding="utf-8")
    again: dict[str, Any] = json.loads((folder / "saved.ipynb").read_text("utf-8"))
    return [[_joined(output) for output in cell["outputs"]] for cell in again["cells"]]


def _joined(part: Any) -> Any:  # noqa: ANN401 - JSON
    """An output whose texts are in one piece; a file has them line by line."""
    if isinstance(part, list):
        return "".join(cast("list[str]", part))
    if isinstance(part, dict):
        return {name: _joined(inner) for name, inner in cast("dict[str, Any]", part).items()}
    return part


def test_a_cell_shows_its_figure(saved: list[list[dict[str, Any]]]) -> None:
    (shown,) = saved[1]
    assert shown["data"]["image/svg+xml"].lstrip().startswith("<svg")
    assert shown["data"]["text/plain"].startswith("<Program Head(X [B, S, 8]) -> O [B, S, 4]")
    assert saved[2][0]["data"]["text/plain"] == "(2, 5, 4)"


def test_the_page_is_in_the_saved_file(saved: list[list[dict[str, Any]]]) -> None:
    figure, page = saved[3]
    assert "backward pass" in figure["data"]["image/svg+xml"]
    for shown in (page, saved[-1][0]):
        html = shown["data"]["text/html"]
        (text,) = re.findall(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', html)
        assert unescape(text).startswith("<!doctype html>")
    alone = explorer(xg.compile(source="\n" + EXPLORED.partition("\n")[2])).page()
    assert unescape(text) == alone.replace("&lt;source&gt;", "&lt;cell&gt;")


def test_errors_are_those_of_check(saved: list[list[dict[str, Any]]]) -> None:
    ((wrong,), (misused,)) = saved[-3:-1]
    assert wrong["name"] == misused["name"] == "stderr"
    assert "no operator, block or option is called Nothing" in wrong["text"]
    assert "┌─ <cell>:4:10\n4│     X -> Nothing : Y" in wrong["text"]
    assert misused["text"] == "%%xg: 3x is no name for a variable\n"


def test_a_product_of_plans_is_quoted(saved: list[list[dict[str, Any]]]) -> None:
    ((planned,), (unquoted,)) = saved[-5:-3]
    assert "F(X [2, 6]) -> Y [2, 4]" in planned["data"]["text/plain"]
    assert unquoted["text"] == "%%xg: both --plan 'DP × TP: no closing quotation\n"


def test_each_block_that_nothing_calls_is_shown(saved: list[list[dict[str, Any]]]) -> None:
    shown = [output["data"]["text/plain"].partition("(")[0] for output in saved[-6]]
    assert shown == ["<Program First", "<Program Second"]


@dataclass
class Recording:
    """A shell of IPython that keeps what it is asked to do."""

    user_ns: dict[str, object] = field(default_factory=dict[str, object])
    display_formatter: Any = None
    magic: Any = None
    asked: list[object] = field(default_factory=list[object])

    @property
    def display_pub(self) -> Any:  # noqa: ANN401 - the shell is its own publisher
        return self

    def register_magic_function(self, func: object, magic_kind: str, magic_name: str) -> None:
        assert (magic_kind, magic_name) == ("cell", "xg")
        self.magic = func

    def publish(self, data: dict[str, object], metadata: dict[str, object]) -> None:
        self.asked.append((data, metadata))

    def clear_output(self, wait: bool = False) -> None:
        self.asked.append(wait)


@pytest.mark.parametrize(("option", "awaited"), [("", "figure"), ("--explore", "page to explore")])
def test_a_cell_says_what_it_waits_for(option: str, awaited: str) -> None:
    """The line goes when something else is shown: the saved file does not have it."""
    shell = Recording()
    xg.load_ipython_extension(shell)  # pyright: ignore
    shown = shell.magic(option, EXPLORED.partition("\n")[2])
    assert type(shown).__name__ == ("Explorer" if option else "Program")
    assert shell.asked == [({"text/plain": f"compiling; the {awaited} comes here"}, {}), True]


def test_a_program_has_its_page() -> None:
    program = xg.compile(source=EXPLORED.partition("\n")[2])
    assert program.explorer(height=400) == explorer(program, 400)


def test_a_name_is_no_program() -> None:
    with pytest.raises(TypeError, match="a program, as %%xg leaves it in a variable, not str"):
        explorer("mine")  # pyright: ignore[reportArgumentType]


def test_a_path_or_a_text() -> None:
    with pytest.raises(TypeError, match="a path, or a text"):
        xg.compile()
    with pytest.raises(TypeError, match="a path, or a text"):
        xg.compile("mlp.xg", source="dim B")
    with pytest.raises(xg.DiagnosticError, match="not UTF-8"):
        xg.compile(source="dim B\udc80")
