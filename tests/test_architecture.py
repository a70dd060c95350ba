"""Imports run one way: the table of docs/architecture.md, read and held against the code."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "architecture.md"
ALONE = ("xg.ops", "xg.passes", "xg.backends")  # their members do not import each other
Imports = Mapping[str, frozenset[str]]


def layers() -> list[str]:
    """The first column of the table of modules, in its order."""
    _, _, section = DOCUMENT.read_text(encoding="utf-8").partition("\n## The modules\n")
    section, _, _ = section.partition("\n## ")
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def imports_of(folder: Path) -> Imports:
    """What every module under a source root imports, as full names of modules."""
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


def upward(imports: Imports, order: list[str]) -> list[str]:
    """Imports that do not point to a row above or into the same package."""
    place = {f"xg.{name}": position for position, name in enumerate(order)}
    return [
        f"{module} imports {target}"
        for module, targets in imports.items()
        for target in sorted(targets)
        if module != "xg" and target.startswith("xg.")
        if place[_layer(target)] > place[_layer(module)]
    ]


def sideways(imports: Imports) -> list[str]:
    """Imports between members of a package whose members stand alone, and of passes by backends."""
    found: list[str] = []
    for module, targets in imports.items():
        for target in sorted(targets):
            package = _layer(module)
            member, other = (name.split(".")[2:3] for name in (module, target))
            apart = package in ALONE and member and other and member != other
            if (apart and _layer(target) == package) or (
                package == "xg.backends" and _layer(target) == "xg.passes"
            ):
                found.append(f"{module} imports {target}")
    return found


def _layer(module: str) -> str:
    return ".".join(module.split(".")[:2])


@pytest.fixture(scope="module")
def compiler() -> Imports:
    return imports_of(ROOT / "compiler")


def test_every_module_has_its_row(compiler: Imports) -> None:
    assert {_layer(module) for module in compiler} - {"xg"} == {f"xg.{name}" for name in layers()}


def test_imports_point_upwards(compiler: Imports) -> None:
    assert upward(compiler, layers()) == []
    assert sideways(compiler) == []


def test_an_import_downwards_is_found() -> None:
    planted = {"xg.dim": frozenset({"xg.graph"}), "xg.graph": frozenset({"xg.dim", "ast"})}
    assert upward(planted, layers()) == ["xg.dim imports xg.graph"]


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("xg.ops.glu", "xg.ops.sigmoid"),
        ("xg.passes.infer.calls", "xg.passes.resolve"),
        ("xg.backends.numpy.module", "xg.backends.graphviz.figure"),
        ("xg.backends.numpy.module", "xg.passes.infer"),
    ],
)
def test_an_import_sideways_is_found(module: str, target: str) -> None:
    assert sideways({module: frozenset({target})}) == [f"{module} imports {target}"]


@pytest.mark.parametrize("root", ["runtime", "grammar"])
def test_runtime_and_grammar_do_not_know_the_compiler(root: str) -> None:
    for module, targets in imports_of(ROOT / root).items():
        assert not any(name.split(".")[0] == "xg" for name in targets), module


def test_only_what_runs_code_knows_the_runtime(compiler: Imports) -> None:
    users = {
        _layer(module)
        for module, targets in compiler.items()
        if any(name.split(".")[0] == "xg_runtime" for name in targets)
    }
    assert users <= {"xg.cli", "xg.driver", "xg.explorer", "xg.proof"}
