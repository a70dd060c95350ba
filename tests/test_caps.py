"""Files, functions and classes stay small, and imports are at the top of their files."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from xg.ir.collectives import COLLECTIVES, PRIMITIVES
from xg.ir.functions import FUNCTIONS

ROOT = Path(__file__).parent.parent
FOLDERS = ("compiler", "runtime", "grammar")
FILE, FUNCTION, CLASS = 800, 60, 400  # lines
ENTRIES = 22  # at the top of compiler/xg
INNER = 40  # imports inside functions of the compiler, but for those of what may not be installed
OPTIONAL = ("torch", "jax", "onnx")
COMMANDS = "commands"  # folders whose functions import what is heavy; `xg.cli.commands` says why
SAME_NAME = 2  # files of one name in a package
EVERYWHERE = ("__init__", "errors", "module", "package")  # names that many rooms have
# Each backend has the same files as the emitter that they share and as its kernels: one family.
FAMILY = (ROOT / "compiler/xg/codegen", ROOT / "compiler/xg_kernels")


# Syntax trees and what is made of them have the same names, and so has what each backend writes
# into its modules.
TREE = "compiler/xg/syntax/ast.py"
WRITTEN = "support.py"


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@cache
def nodes(text: str) -> list[ast.AST]:
    """Every node of a file's tree, once for all tests."""
    return list(ast.walk(ast.parse(text)))


def lengths(text: str) -> Iterator[tuple[str, int, int]]:
    """Every function and class of a text: its name, its lines, and how many it may have."""
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            cap = CLASS if isinstance(node, ast.ClassDef) else FUNCTION
            yield node.name, (node.end_lineno or 0) - node.lineno + 1, cap


def inner_imports(text: str) -> list[int]:
    """The lines of a text at which a function imports something."""
    functions = [n for n in nodes(text) if isinstance(n, ast.FunctionDef)]
    found = {
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        if not any(name.split(".")[0] in OPTIONAL for name in _imported(node))
    }
    return sorted(found)


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]


def too_long() -> dict[str, int]:
    found: dict[str, int] = {}
    for file in (file for folder in FOLDERS for file in files(folder)):
        name, text = file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
        count = len(text.splitlines())
        found |= {name: count} if count > FILE else {}
        found |= {f"{name} {what}": n for what, n, cap in lengths(text) if n > cap}
    return found


def test_files_functions_and_classes_are_small() -> None:
    assert too_long() == {}


def test_few_imports_are_inside_functions_and_each_says_why() -> None:
    count, unexplained = 0, list[str]()
    for file in (file for file in files("compiler") if file.parent.name != COMMANDS):
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        inner = inner_imports(text)
        count += len(inner)
        unexplained += [f"{file.name}:{line}" for line in inner if "  # " not in lines[line - 1]]
    assert unexplained == []
    assert count <= INNER


def test_the_top_of_the_compiler_is_small() -> None:
    top = [path for path in (ROOT / "compiler" / "xg").iterdir() if path.name != "__pycache__"]
    assert len(top) <= ENTRIES


@pytest.mark.parametrize("folder", ["compiler", "runtime"])
def test_a_name_of_a_file_says_which_file_it_is(folder: str) -> None:
    places = {
        (file.stem, FAMILY if any(map(file.is_relative_to, FAMILY)) else file)
        for file in files(folder)
    }
    counts = Counter(name for name, _ in places)
    assert [n for n, count in counts.items() if count > SAME_NAME and n not in EVERYWHERE] == []


def test_what_is_too_long_is_noticed() -> None:
    body = "    pass\n" * FUNCTION
    ((name, count, cap),) = lengths(f"def f():\n{body}")
    assert (name, count > cap) == ("f", True)
    assert inner_imports("import a\ndef f():\n    import b\n    from c import d\n") == [3, 4]


def test_collectives_are_named_in_their_records() -> None:
    """In that of the compiler and that of the runtime, and among the names that this exports."""
    texts = [file.read_text("utf-8") for root in ("compiler", "runtime") for file in files(root)]
    assert named(PRIMITIVES, texts, 3) == []
    glyphs = [each.glyph for each in COLLECTIVES.values() if each.is_written]
    assert len(glyphs) > 3
    assert named(glyphs, texts, 1) == []
    assert named(["AR"], ['if glyph == "AR":', 'SUMS = ("AR", "RS")'], 1) == ["AR"]


def test_functions_are_named_in_their_records() -> None:
    """And where text of other libraries or broken text is read; an operator has the name tanh."""
    texts = [file.read_text("utf-8") for root in ("compiler", "runtime") for file in files(root)]
    assert len(FUNCTIONS) > 5
    assert named(["erf", "log1p"], texts, 3) == []
    core = ("ir", "sharding", "cost", "codegen", "verify", "passes", "driver")
    folders = (f"compiler/xg/{room}" for room in core)
    inner = [file.read_text("utf-8") for folder in folders for file in files(folder)]
    assert named(["erf", "sin", "cos", "log1p", "floor"], inner, 1) == []


def named(names: Iterable[str], texts: Sequence[str], most: int) -> list[str]:
    """The names that stand, as a whole text, in more files than `most`."""
    return [name for name in names if sum(f'"{name}"' in text for text in texts) > most]


def test_a_name_of_a_class_means_one_thing() -> None:
    counts = Counter(
        node.name
        for file in files("compiler")
        if file != ROOT / TREE and file.name != WRITTEN
        for node in nodes(file.read_text(encoding="utf-8"))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in counts.items() if count > 1} == set()
