"""Which blocks of code run: each records its number, a few nanoseconds a time."""

from __future__ import annotations

import ast
import builtins
import mmap
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from mutants.rooms import ROOT, sources

NAME = "_blocks_that_ran"


class Block(NamedTuple):
    """Statements that run together: their file, their outermost function, their number in it."""

    path: str
    function: str
    number: int


class Part(NamedTuple):
    """The statements of a block, in a tree that can be changed."""

    block: Block
    digest: str  # of the whole function, in whatever file it is
    body: list[ast.stmt]


def outermost(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function that is in no other, with its qualified name."""
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, node = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                stack.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.FunctionDef):
                yield f"{prefix}{child.name}", child
            elif isinstance(child, ast.If | ast.Try | ast.With):
                stack.append((prefix, child))


def parts(tree: ast.Module, path: str) -> Iterator[Part]:
    """Every block of a file's functions, an outer one before those in it."""
    for name, function in outermost(tree):
        digest = sha256(ast.dump(function).encode()).hexdigest()[:16]
        bodies = (body for node in ast.walk(function) for body in _bodies(node))
        for number, body in enumerate(list(bodies)):
            yield Part(Block(path, name, number), digest, body)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    if isinstance(node, ast.ClassDef | ast.Lambda | ast.IfExp):
        return
    for field in ("body", "orelse", "finalbody"):
        if body := getattr(node, field, None):
            yield body


def block_at(
    path: Path, start: tuple[int, int], end: tuple[int, int], root: Path = ROOT
) -> Block | None:
    """The innermost block that a place of a file is in; None of a module or class."""
    tree = ast.parse(path.read_text("utf-8"))
    found = None
    for part in parts(tree, path.relative_to(root).as_posix()):
        first, last = part.body[0], part.body[-1]
        ending = (last.end_lineno or 0, last.end_col_offset or 0)
        if (first.lineno, first.col_offset) <= start and end <= ending:
            found = part.block
    return found


def table() -> dict[Block, str]:
    """Map every block, in the order of their numbers, to a digest of its function's code."""
    return {
        part.block: part.digest
        for path in sources()
        for part in parts(ast.parse(path.read_text("utf-8")), path.relative_to(ROOT).as_posix())
    }


class Watch(MetaPathFinder):
    """Imports files of the rooms so that their blocks say that they run."""

    def __init__(self, blocks: Collection[Block]) -> None:
        self.ran = mmap.mmap(-1, len(blocks))  # also what forked processes run
        self.places = {block: place for place, block in enumerate(blocks)}
        self.functions: dict[tuple[str, str], list[int]] = {}
        for block, place in self.places.items():
            self.functions.setdefault((block.path, block.function), []).append(place)
        self.modules = {_module(path): path for path in sources()}

    def another(self) -> mmap.mmap:
        """Give this process marks that it does not share with the one it was forked from."""
        ran = mmap.mmap(-1, len(self.ran))
        setattr(builtins, NAME, ran)
        return ran

    def mark(self, path: str, function: str) -> None:
        """Note that the text of a function reached a generated module."""
        for place in self.functions.get((path, function), ()):
            self.ran[place] = 1

    def install(self) -> None:
        """Watch what is imported from now on."""
        setattr(builtins, NAME, self.ran)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the rooms."""
        del path, target
        if (file := self.modules.get(fullname)) is None:
            return None
        package = file.stem == "__init__"
        loader = _Watched(file, self.places)
        spec = spec_from_loader(fullname, loader, is_package=package)  # with its __file__
        if spec and package:
            spec.submodule_search_locations = [str(file.parent)]
        return spec


class _Watched(SourceLoader):
    def __init__(self, path: Path, places: dict[Block, int]) -> None:
        self.path, self.places = path, places

    def get_filename(self, fullname: str) -> str:
        del fullname
        return str(self.path)

    def get_data(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def source_to_code(self, data: bytes, path: str) -> object:  # pyright: ignore
        name = self.path.relative_to(ROOT).as_posix()
        tree = watched(ast.parse(data), name, self.places)
        return compile(tree, path, "exec", dont_inherit=True)


def watched(tree: ast.Module, path: str, places: Mapping[Block, int]) -> ast.Module:
    """Let each block of a file note that it runs, before its first statement."""
    for block, _, body in parts(tree, path):
        after = int(len(body) > 1 and _is_text(body[0]))
        mark = ast.parse(f"{NAME}[{places[block]}] = 1").body[0]
        for node in ast.walk(mark):
            ast.copy_location(node, body[0])
        body.insert(after, mark)
    return tree


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:]).removesuffix(".__init__")
