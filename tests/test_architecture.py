"""Imports run one way: the table of docs/architecture.md, read and checked against the code."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "architecture.md"
OUTSIDE = ("xg_grammar", "xg_runtime")
CORE = "the core"  # in the row of a package
ALONE = ("xg.ops", "xg.passes", "xg.codegen")  # their members do not import each other
SHARED = (
    "xg.codegen.emit",
    "xg.codegen.backend",
    "xg.codegen.errors",
    "xg.passes.pipelines",
)  # but for what all members are made with
ASSEMBLING = ("xg.passes.pipelines", "xg.passes.ir_text")  # which know several members
Imports = Mapping[str, frozenset[str]]


def rooms() -> dict[str, frozenset[str]]:
    """The table of rooms: which others each may import, in the order of the floors."""
    _, _, section = DOCUMENT.read_text(encoding="utf-8").partition("\n## The folders\n")
    section, _, _ = section.partition("\n## ")
    found: dict[str, frozenset[str]] = {}
    for name, allowed in re.findall(r"^\| \d \| `(\w+)` \|.*\| (.*) \|$", section, re.MULTILINE):
        named = frozenset(re.findall(r"`(\w+)`", allowed))
        core = {room for room in found if not room.startswith("xg_")}
        found[name] = named | (core if allowed == "all" or allowed.startswith(CORE) else set())
    return found


@cache
def imports_of(folder: Path) -> Imports:
    """The imports of every module under a source root, as full names of modules."""
    files = {_module(file.relative_to(folder)): file for file in sorted(folder.rglob("*.py"))}
    return {
        module: frozenset(_imported(ast.parse(file.read_text(encoding="utf-8")), files))
        for module, file in files.items()
    }


def _module(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.Module, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else str(node.module)


def named_in_strings(folder: Path) -> Imports:
    """The modules of rooms that each module names in a string, for an import at run time."""
    return {
        _module(file.relative_to(folder)): frozenset(
            node.value.partition(":")[0]
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            if re.fullmatch(r"xg(_[a-z]+)?(\.\w+)+(:\w+)?", node.value)
            if (folder / node.value.partition(":")[0].replace(".", "/")).with_suffix(".py").exists()
        )
        for file in sorted(folder.rglob("*.py"))
    }


def forbidden(imports: Imports, table: Mapping[str, frozenset[str]]) -> list[str]:
    """Imports of a room that the row of the importing room does not name."""
    return [
        f"{module} imports {target}"
        for module, targets in imports.items()
        for target in sorted(targets)
        if module not in ("xg", "xg.__main__") and _is_ours(target)
        if _room(target) != _room(module)
        if _room(target) not in table[_room(module)]
    ]


def sideways(imports: Imports) -> list[str]:
    """Imports between members of a package whose members must not depend on each other."""
    return [
        f"{module} imports {target}"
        for module, targets in imports.items()
        for target in sorted(targets)
        for package in ALONE
        if module.startswith(f"{package}.") and target.startswith(f"{package}.")
        if _member(module) != _member(target) and _member(target) not in SHARED
        if _member(module) not in ASSEMBLING
    ]


def circles(imports: Imports) -> list[tuple[str, ...]]:
    """Files that import each other, directly or through others."""
    reached = {module: _reached(module, imports) for module in imports}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached.get(other, ())))
        for module in imports
        if module in reached[module]
    }
    return sorted(groups)


def _reached(module: str, imports: Imports) -> frozenset[str]:
    found: set[str] = set()
    waiting = [module]
    while waiting:
        for target in imports.get(waiting.pop(), ()):
            if target in imports and target not in found:
                found.add(target)
                waiting.append(target)
    return frozenset(found)


def _is_ours(module: str) -> bool:
    """Whether a module is of a room; `xg` itself, the runtime and the grammar are of none."""
    package = module.split(".")[0]
    return module.startswith("xg.") or (package.startswith("xg_") and package not in OUTSIDE)


def _room(module: str) -> str:
    package, _, inner = module.partition(".")
    return inner.split(".")[0] if package == "xg" else package


def _member(module: str) -> str:
    return ".".join(module.split(".")[:3])


@pytest.fixture(scope="module")
def compiler() -> Imports:
    return imports_of(ROOT / "compiler")


def test_every_room_has_its_row(compiler: Imports) -> None:
    found = {_room(module) for module in compiler if module != "xg"}
    assert found - {"__main__"} == set(rooms())


def test_rows_name_only_rooms_above_them() -> None:
    names = list(rooms())
    for place, (name, allowed) in enumerate(rooms().items()):
        assert allowed <= set(names[:place]), name


def test_rooms_import_what_their_rows_name(compiler: Imports) -> None:
    assert forbidden(compiler, rooms()) == []
    assert sideways(compiler) == []


def test_strings_name_modules_that_their_room_may_import(tmp_path: Path) -> None:
    assert forbidden(named_in_strings(ROOT / "compiler"), rooms()) == []
    for name, text in (("cost", 'load("xg.cli.show:run")'), ("cli", "")):
        (tmp_path / "xg" / name).mkdir(parents=True)
        (tmp_path / "xg" / name / "show.py").write_text(text, encoding="utf-8")
    found = forbidden(named_in_strings(tmp_path), rooms())
    assert found == ["xg.cost.show imports xg.cli.show"]


@pytest.mark.parametrize("root", ["compiler", "runtime", "grammar"])
def test_no_files_import_each_other(root: str) -> None:
    assert circles(imports_of(ROOT / root)) == []


def test_the_document_names_files_that_exist() -> None:
    pages = (DOCUMENT, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "adding-a-primitive.md")
    text = "".join(page.read_text("utf-8") for page in pages)
    compiler = ROOT / "compiler"
    roots = (compiler / "xg", compiler / "xg" / "verify" / "reference", compiler, ROOT)
    named = [name for name in re.findall(r"`([\w/]+/[\w/]+\.py)`", text) if "NAME" not in name]
    assert len(named) > 20
    assert [name for name in named if not any((r / name).exists() for r in roots)] == []


def test_kinds_of_errors_are_in_modules_of_errors() -> None:
    marked = re.compile(r"^class (?!ProblemAt\b)\w+\(.*\bProblem(At)?\):", re.MULTILINE)
    folder = ROOT / "compiler"
    places = {
        file.relative_to(folder).as_posix()
        for file in folder.rglob("*.py")
        if marked.search(file.read_text(encoding="utf-8"))
    }
    assert {place for place in places if "errors" not in place} == {"xg/diagnostics/limits.py"}


def test_classes_of_the_compiler_are_compiled_lazily() -> None:
    # the standard `dataclass` compiles every method when its module is imported
    folder = ROOT / "compiler"
    eager = re.compile(r"^ *(from dataclasses import|import dataclasses)", re.MULTILINE)
    assert {
        file.name for file in folder.rglob("*.py") if eager.search(file.read_text(encoding="utf-8"))
    } == {"lazy_dataclass.py"}


def test_the_table_names_no_import_that_nobody_needs(compiler: Imports) -> None:
    used: dict[str, set[str]] = {name: set() for name in rooms()}
    for module, targets in compiler.items():
        if module not in ("xg", "xg.__main__"):
            used[_room(module)] |= {_room(name) for name in targets if _is_ours(name)}
    for name, allowed in rooms().items():
        assert name == "cli" or name.startswith("xg_") or allowed <= used[name], name


def test_an_import_of_another_room_is_found() -> None:
    planted = {"xg.ir.dim": frozenset({"xg.cost.cost"}), "xg.cost.cost": frozenset({"xg.ir.dim"})}
    table = {"ir": frozenset[str](), "cost": frozenset({"ir"})}
    assert forbidden(planted, table) == ["xg.ir.dim imports xg.cost.cost"]


def test_a_circle_is_found() -> None:
    planted = {
        "xg.a": frozenset({"xg.b"}),
        "xg.b": frozenset({"xg.c"}),
        "xg.c": frozenset({"xg.b"}),
    }
    assert circles(planted) == [("xg.b", "xg.c")]


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("xg.ops.glu", "xg.ops.sigmoid"),
        ("xg.passes.infer.calls", "xg.passes.resolve"),
        ("xg.codegen.numpy.dialect", "xg.codegen.torch.dialect"),
    ],
)
def test_an_import_sideways_is_found(module: str, target: str) -> None:
    assert sideways({module: frozenset({target})}) == [f"{module} imports {target}"]


@pytest.mark.parametrize("root", ["runtime", "grammar"])
def test_runtime_and_grammar_do_not_know_the_compiler(root: str) -> None:
    for module, targets in imports_of(ROOT / root).items():
        assert not any(name.split(".")[0] == "xg" for name in targets), module


def test_only_what_runs_code_or_reads_arrays_knows_the_runtime(compiler: Imports) -> None:
    users = {
        _room(module)
        for module, targets in compiler.items()
        if any(name.split(".")[0] == "xg_runtime" for name in targets)
    }
    assert users <= {"cli", "driver", "frontend", "verify"} | {
        name for name in rooms() if "_" in name
    }
