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
from nbclient.exceptions import CellExecutionError

import xg
from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg_pages.notebook import explorer

ROOT = Path(__file__).parents[2]
CELLS = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/how-to/notebook.md").read_text("utf-8"), re.DOTALL
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
    terms: dict[str, Any] = {"timeout": 120, "resources": {"metadata": {"path": str(folder)}}}
    client = NotebookClient(notebook, allow_errors=True, **terms)
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
    cell = parse_project(("\n" + EXPLORED.partition("\n")[2]).encode(), "<cell>")
    assert unescape(text) == explorer(compile_project(cell, None, {})).page()


def test_a_figure_becomes_a_file(saved: list[list[dict[str, Any]]]) -> None:
    size = int(saved[4][0]["data"]["text/plain"])
    program = xg.compile(source=CELLS[1].partition("\n")[2], sizes={"D": 8})
    assert size == len(program.render(format="pdf")) > 1_000


def test_errors_are_those_of_check(saved: list[list[dict[str, Any]]]) -> None:
    ((wrong,), (misused,)) = saved[-3:-1]
    assert [wrong["output_type"], misused["output_type"]] == ["error"] * 2
    assert wrong["traceback"].startswith(
        "error[XG0202]: no operator, block or option is called Nothing"
    )
    assert "┌─ <cell>:4:10" in wrong["traceback"]
    assert "notebook.py" not in wrong["traceback"]
    assert misused["traceback"] == "%%xg: 3x is no name for a variable"


def test_a_product_of_plans_is_quoted(saved: list[list[dict[str, Any]]]) -> None:
    ((planned,), (unquoted,)) = saved[-5:-3]
    assert "F(X [2, 6]) -> Y [2, 4]" in planned["data"]["text/plain"]
    assert unquoted["traceback"] == "%%xg: both --plan 'DP × TP: no closing quotation"


def test_each_block_that_nothing_calls_is_shown(saved: list[list[dict[str, Any]]]) -> None:
    shown = [output["data"]["text/plain"].partition("(")[0] for output in saved[-6]]
    assert shown == ["<Program First", "<Program Second"]


def test_a_failing_cell_stops_the_run() -> None:
    new: Any = nbformat.v4
    cells = [new.new_code_cell(text) for text in ("%load_ext xg", WRONG, "print('on')")]
    notebook = new.new_notebook(cells=cells)
    with pytest.raises(CellExecutionError, match="is called Nothing"):
        NotebookClient(notebook, timeout=120).execute()
    assert not notebook.cells[2].outputs


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


class Formatting:
    """A formatter that says which kind of value it was given."""

    def format(self, obj: object) -> tuple[dict[str, object], dict[str, object]]:
        return {"kind": type(obj).__name__}, {}


def loaded() -> Recording:
    shell = Recording(display_formatter=Formatting())
    xg.load_ipython_extension(shell)  # pyright: ignore
    return shell


GOOD = "dim B\nblock F(X [B]) -> Y [B] {\n    X -> ReLU : Y\n}\n"


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (
            "net",
            GOOD.replace("ReLU", "Nothing"),
            "error[XG0202]: no operator, block or option is called",
        ),
        ("net --bogus", GOOD, "%%xg: unrecognized arguments: --bogus"),
        ("net --set", GOOD, "%%xg: argument --set: expected one argument"),
        ("--set D net", GOOD, "%%xg: argument --set: 'D' should be NAME=VALUE"),
        ("net --plan 'DP", GOOD, "%%xg: net --plan 'DP: no closing quotation"),
        ("net --set Q=3", GOOD, "error[XG0214]: no option or dim is called Q"),
    ],
)
def test_a_failing_cell_leaves_no_old_program(line: str, text: str, said: str) -> None:
    shell = loaded()
    shell.magic("net", GOOD)
    shell.magic("", GOOD)
    assert shell.user_ns.keys() == {"net", "program"}
    with pytest.raises(Exception, match=re.escape(said)) as caught:
        shell.magic(line, text)
    assert type(caught.value).__name__ == "CellError"
    assert shell.user_ns.keys() == {"program"}


def test_a_keyword_is_no_variable() -> None:
    with pytest.raises(Exception, match=r"^%%xg: class is a keyword of Python, and no name for"):
        loaded().magic("class", GOOD)


def test_a_plan_of_an_unknown_axis_is_refused() -> None:
    text = GOOD + "plan TP of F { X [B/N_T] }\n"
    for wrong in (lambda: loaded().magic("net", text), lambda: xg.compile(source=text)):
        with pytest.raises(Exception, match=r"^error\[XG0232\]: no mesh axis is called N_T"):
            wrong()


def test_an_error_in_another_choice_is_refused_as_check_does() -> None:
    text = "option act = ReLU | Nothing\n" + GOOD.replace("ReLU", "act")
    with pytest.raises(
        Exception, match=r"^error\[XG0202\]: no operator, block or option is called Nothing"
    ):
        loaded().magic("net", text)


def test_each_page_to_explore_is_shown() -> None:
    shell = loaded()
    shown = shell.magic("--explore both", TWO.partition("\n")[2])
    assert shell.asked[2:] == [({"kind": "Explorer"}, {})]
    assert shown.program.graphs.main.block == "Second"


def test_the_magic_says_how_it_is_used() -> None:
    shell = loaded()
    for word in ("usage: %%xg", "--explore", "--plan NAME", "the variable; default: program"):
        assert word in shell.magic.__doc__
    assert shell.magic("--help", GOOD) is None
    assert shell.asked == [({"text/plain": shell.magic.__doc__}, {})]


@pytest.mark.parametrize(
    ("height", "said"),
    [(-5, "at least 1, not -5"), (0, "at least 1, not 0"), ("50%", "such as 720, not '50%'")],
)
def test_a_height_is_a_number_of_pixels(height: Any, said: str) -> None:  # noqa: ANN401 - wrong
    with pytest.raises((ValueError, TypeError), match=f"^height is a number of pixels, {said}$"):
        xg.compile(source=GOOD).explorer(height)
