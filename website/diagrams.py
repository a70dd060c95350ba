"""The outputs of xg for a diagram: figures, code, costs, its explorer's pages, its plans."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from website.plans import PlanCode, PlanFigures, plan_code, plan_figures
from xg.cli import main
from xg.cli.outputs import Wanted, outputs_of
from xg.diagnostics.escape import stems
from xg.driver import BACKENDS, Program, compile_project
from xg.frontend.project import Project, read_project
from xg.frontend.typed import root_blocks

PICTURES = ("forward", "backward", "overview")


@dataclass(frozen=True)
class Block:
    """A block of a diagram; `whole`: no other calls it, so it has code, costs and a page."""

    name: str
    title: str
    stem: str
    views: tuple[str, ...]
    cost: str = ""  # what `xg cost` says; "" where it is not whole
    compared: str = ""  # what it says of all plans; "" where there are none

    @property
    def whole(self) -> bool:
        """Whether there are modules of it and a page."""
        return bool(self.cost)


@dataclass(frozen=True)
class Built:
    """Everything that the page of a diagram shows."""

    path: str  # in diagrams/
    text: str
    blocks: tuple[Block, ...]
    light: dict[str, bytes]  # figures, modules and pages by their file names
    dark: dict[str, bytes]  # figures
    plans: tuple[PlanCode, ...]
    drawn: tuple[PlanFigures, ...]

    @property
    def name(self) -> str:
        """The file without its ending."""
        return Path(self.path).stem


def build(root: Path, path: str) -> Built:
    """Everything of one diagram."""
    project = read_project(root / "diagrams" / path)
    kinds = ("svg", "html", *BACKENDS)
    light = outputs_of(project, Wanted(kinds=kinds, theme="light", named=False)).files
    dark = outputs_of(project, Wanted(kinds=("svg",), theme="dark")).files
    text = (root / "diagrams" / path).read_text(encoding="utf-8")
    blocks = tuple(_blocks(root, path, project, light))
    whole = [block.name for block in blocks if block.whole]
    folder = root / "tests" / "figures" / "gallery"
    drawn = tuple(plan_figures(folder, project, {block.name: block.stem for block in blocks}))
    return Built(path, text, blocks, light, dark, plan_code(project, whole), drawn)


def build_all(root: Path, paths: list[str], processes: int) -> list[Built]:
    """Every diagram, in this process or in as many others."""
    if processes == 1:
        return [build(root, path) for path in paths]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(build, [root] * len(paths), paths))


def _blocks(root: Path, path: str, project: Project, files: dict[str, bytes]) -> Iterator[Block]:
    whole = root_blocks(project.main)
    stem = stems(Path(path).stem, [block.name.name for block in project.main.blocks])
    planned = bool(project.main.plan_decls)
    for declared in reversed(project.main.blocks):
        name = declared.name.name
        program = compile_project(project, name, {})
        views = tuple(view for view in PICTURES if f"{stem[name]}.{view}.svg" in files)
        said = [str(root / "diagrams" / path), "--block", name, *_sizes(program)]
        cost = printed(["cost", *said]) if name in whole else ""
        compared = printed(["cost", *said, "--plan", "*"]) if name in whole and planned else ""
        yield Block(name, program.graphs.main.title, stem[name], views, cost, compared)


def _sizes(program: Program) -> list[str]:
    """Sizes for a batch of sequences, where the block takes such."""
    free = {size for spec in program.inputs.values() for size in spec.shape}
    return ["--set", "B=8", "--set", "S=64"] if {"B", "S"} <= free else []


def printed(words: list[str]) -> str:
    """The output of a command. RuntimeError: it fails."""
    out = StringIO()
    with redirect_stdout(out):
        code = main(words)
    if code:
        raise RuntimeError(f"xg {' '.join(words)} ends with {code}")
    return out.getvalue()
