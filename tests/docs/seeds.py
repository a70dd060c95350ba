"""Read the table of the source texts, tests/docs/seeds.toml, and find the rows without a proof.

A row says what a seed has, where its diagram and figure are, and which tests show that it works.
A row without a proof, or with one that is not there, is a problem.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docs.markdown import blocks, commands

KINDS = ("figure", "operator", "formula", "cost", "architecture", "number")
FIGURES = "tests/figures/gallery"


@dataclass(frozen=True)
class Row:
    """One thing that a seed has. Either `xg` and `figure` are there, or `code`."""

    seed: str
    at: str  # section of the seed
    kind: str
    what: str
    by: str  # names of proofs
    xg: str = ""  # folder and file in diagrams/
    figure: str = ""
    code: str = ""
    command: str = ""  # run by an example of a document
    wrong: str = ""  # what the seed has wrong

    @property
    def diagram(self) -> str:
        """The path of the row's diagram."""
        return f"diagrams/{self.xg}"


@dataclass(frozen=True)
class Table:
    """All rows, and each proof's test by its short name."""

    rows: tuple[Row, ...]
    proofs: Mapping[str, str]


def read(text: str) -> Table:
    """The table in a TOML file. TypeError: a row lacks a field, or has one that is unknown."""
    data = tomllib.loads(text)
    rows = [Row(seed=seed, **row) for seed, rows in data["rows"].items() for row in rows]
    return Table(tuple(rows), data["proofs"])


def problems(table: Table, root: Path, documents: tuple[str, ...]) -> list[str]:
    """Everything that is not there, of the rows and of their proofs."""
    shown = frozenset(_shown(root, documents))
    named = {name for row in table.rows for name in row.by.split()}
    found = [
        f"seed {row.seed}, {row.at}, {row.what}: {problem}"
        for row in table.rows
        for problem in _of_row(row, table, root, shown)
    ]
    for name, test in table.proofs.items():
        found += [f"no row needs {name}"] if name not in named else []
        found += [f"there is no {test}"] if not _exists(root, test) else []
    return found


def _of_row(row: Row, table: Table, root: Path, shown: frozenset[str]) -> Iterator[str]:
    if row.kind not in KINDS:
        yield f"{row.kind} is no kind"
    if not row.by.split():
        yield "nothing shows it"
    yield from (f"{name} is no proof" for name in row.by.split() if name not in table.proofs)
    if row.command and row.command not in shown:
        yield f"no document runs {row.command}"
    if bool(row.code) == bool(row.xg) or bool(row.xg) != bool(row.figure):
        yield "a diagram and a figure, or code, should be there"
    if row.code and not (root / row.code).is_file():
        yield f"there is no {row.code}"
    if row.xg and not (root / row.diagram).is_file():
        yield f"there is no {row.xg}"
    if row.figure and not (root / FIGURES / f"{row.figure}.dot").is_file():
        yield f"{row.figure} is not in the gallery"
    if not row.figure.startswith(Path(row.xg).stem):
        yield f"{row.figure} is no figure of {row.xg}"


def _shown(root: Path, documents: tuple[str, ...]) -> Iterator[str]:
    """Commands that the examples of the documents run."""
    for name in documents:
        for block in blocks((root / name).read_text(encoding="utf-8")):
            if block.language == "console":
                yield from (command.text for command in commands(block.text))


@cache
def _tests(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef))


def _exists(root: Path, test: str) -> bool:
    """Whether a test `FILE::NAME` is one that pytest collects."""
    file, _, name = test.partition("::")
    path = root / file
    collected = path.name.startswith("test_") and name.startswith("test_")
    return collected and path.is_file() and name in _tests(path)
