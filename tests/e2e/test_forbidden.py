"""Names that the project's code does not use: each with its reason, and few named exceptions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("compiler", "runtime", "grammar")

# Names that say nothing about what is inside.
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc", "core"}

# A name or module, and why it is not used.
FORBIDDEN: Mapping[str, str] = {
    "eval": "runs what it is given",
    "exec": "runs what it is given",
    "__import__": "imports are written as imports",
    "setrecursionlimit": "what follows the input must not recurse; a raised limit ends in a crash",
    "deepcopy": "recurses, and dies at about 245 levels",
    "pickle": "runs code when it is read, and recurses when it is written",
    "marshal": "reads code without a check",
    "shelve": "is pickle",
    "subprocess": "nothing but the layout engine, fontconfig, ranks and xg itself is started",
    "system": "nothing is started through a shell",
    "popen": "nothing is started through a shell",
    "socket": "nothing is sent or fetched",
    "urllib": "nothing is fetched",
    "http": "nothing is fetched",
    "ctypes": "everything is Python or a wheel",
}
MENTIONED = re.compile("|".join(FORBIDDEN))
ALLOWED: Mapping[tuple[str, str], str] = {
    ("xg/codegen/backend.py", "exec"): "makes a module of code that was checked to be closed",
    ("xg/diagnostics/lazy_dataclass.py", "exec"): "makes methods from field names, as Python does",
    ("xg/figures/layout/engines.py", "subprocess"): "runs the layout engine",
    ("xg/figures/draw/glyph.py", "subprocess"): "asks fontconfig for the fonts",
    (
        "xg_pages/server.py",
        "subprocess",
    ): "starts `xg build` for a served page",
    ("xg_pages/server.py", "http"): "answers on this machine, and sends and fetches nothing",
    ("xg_pages/server.py", "socket"): "names how a connection is shut, and opens none",
    ("xg/cli/opening.py", "urllib"): "spells a path as an address, and fetches nothing",
    (
        "xg_runtime/checkpoint/dcp.py",
        "pickle",
    ): "writes what torch reads as a pickle, and builds the classes of a list only",
    ("xg_runtime/ranks/launch.py", "socket"): "a pair without address, to its ranks",
    ("xg_runtime/ranks/launch.py", "subprocess"): "starts the ranks of a program for many",
}


def modules() -> list[Path]:
    return [file for root in SHIPPED for file in sorted((ROOT / root).rglob("*.py"))]


def forbidden(tree: ast.Module) -> Iterator[str]:
    """Every forbidden name that a module imports, calls or mentions."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                names = [part for alias in aliases for part in alias.name.split(".")]
            case ast.ImportFrom(module=module, names=aliases):
                names = [*str(module).split("."), *(alias.name for alias in aliases)]
            case ast.Call(func=ast.Name(id=name)):
                names = [name]
            case ast.Attribute(attr=name) if name not in ("eval", "exec"):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if name in FORBIDDEN)


def found(file: Path) -> set[tuple[str, str]]:
    place = file.relative_to(ROOT).as_posix().split("/", 1)[1]
    text = file.read_text(encoding="utf-8")
    if not MENTIONED.search(text):  # most files need not be parsed
        return set()
    return {(place, name) for name in forbidden(ast.parse(text))}


def test_nothing_forbidden_is_used() -> None:
    used = {place for file in modules() for place in found(file)}
    assert used - ALLOWED.keys() == set()
    assert ALLOWED.keys() - used == set(), "an exception that nothing needs any more"


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "from copy import deepcopy",
        "import sys\nsys.setrecursionlimit(10_000)",
        "eval('1')",
        "import os\nos.system('ls')",
        "import urllib.request",
        "def f():\n    from subprocess import run",
    ],
)
def test_what_is_planted_is_found(planted: str) -> None:
    assert list(forbidden(ast.parse(planted)))


def test_no_module_has_an_empty_name() -> None:
    named = {part for file in modules() for part in file.relative_to(ROOT).with_suffix("").parts}
    assert named & EMPTY_NAMES == set()


def test_nothing_is_left_for_later() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "X" * 3, "raise " + "NotImplemented")
    for file in modules():
        text = file.read_text(encoding="utf-8")
        assert [mark for mark in marks if mark in text] == [], file.name
