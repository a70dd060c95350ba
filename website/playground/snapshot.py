"""The memory of a Python that has the compiler imported: the page goes on from it.

Importing takes a browser ten seconds, reading the memory one. Node.js makes it when the site is
built; it is kept in `build/` by the digest of what it is made of. Where there is none, the page
imports the compiler itself.

Starting took a browser 13 s, of which 10 went into importing modules from text. From kept memory it
takes 3 to 5.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from website.playground.build import FOLDER, squeezed
from website.playground.runtime import CACHE, RuntimeMissing, runtime

HERE = Path(__file__).parent
MAKER, WARM_UP = HERE / "make_snapshot.mjs", HERE / "warm_up.py"
FILES = ("memory.bin", "memory.json")
SECONDS = 300
# What a page cannot ask for, as it needs NumPy, torch or a terminal, or as the memory has read it:
# how names begin in a folder.
LEFT_OUT = {
    "lark": ("",),
    "xg_runtime": ("",),
    "xg_grammar": ("build", "parser.json", "xg.lark", "pygments"),
    "xg": ("__main__", "verify/"),
    "xg/cli": (
        "claims", "commands/", "compiling", "computing",
        "input_arrays", "new_project/", "outputs", "plan_", "rank", "shell_scripts",
        "verification",
    ),
    "xg/codegen": ("jax/on_arrays",),
    "xg_editor": (
        "commands/", "explain", "language_server", "navigation", "session",
    ),
    "xg_pages": (
        "assets/kept", "assets/live", "commands/", "diff/", "embedded", "explain/",
        "markdown_figures", "notebook", "server", "show_page", "sphinx",
    ),
    "xg/passes": ("ir_text",),
}  # fmt: skip
PREFIXES = tuple(f"{folder}/{name}" for folder, names in LEFT_OUT.items() for name in names)
USED = re.compile(  # of these, by costs and by the explorer
    r"xg/cli/commands/(__init__|cost)\.py"
    r"|xg/verify/(__init__|proof_sizes|reference/\w+)\.py"
    r"|xg_runtime/(__init__|errors|held|module)\.py"
    r"|xg_runtime/ranks/(?!process|launch|join|wor|watch|heart|hand|rendez|stage|pipeline"
    r"|agreement|backend|dtensors|exchanges|failure|folder|messages|run_task|task|terms|torch)\w+\.py"
)


def is_sent(name: str) -> bool:
    """Whether a page may ask for a file of the compiler that the memory does not hold."""
    beside = name.startswith("xg/library/") and name.endswith((".names.toml", "xg.lock"))
    left_out = beside or name.startswith(PREFIXES)
    return bool(USED.fullmatch(name)) or not left_out


def snapshot(files: dict[str, bytes], cache: Path = CACHE) -> dict[str, bytes]:
    """The memory's files for a playground of these; `RuntimeMissing` where there is none."""
    python = runtime(cache)
    digest = sha256(MAKER.read_bytes() + WARM_UP.read_bytes())
    used = ("compiler.zip", "answer.py", "graphviz.wasm", "layout.js", "memory.js")
    for part in (*(files[f"{FOLDER}/{name}"] for name in used), *python.values()):
        digest.update(sha256(part).digest())
    kept = cache / f"memory-{digest.hexdigest()[:16]}"
    if not kept.is_dir():
        _make(files, python, kept)
    found = {f"{FOLDER}/{name}": (kept / name).read_bytes() for name in FILES}
    modules = (kept / "memory.modules").read_text(encoding="utf-8").splitlines()
    known = {line.partition("site-packages/")[2] for line in modules}
    with ZipFile(BytesIO(files[f"{FOLDER}/compiler.zip"])) as archive:
        rest = [
            (name, archive.read(name))
            for name in archive.namelist()
            if name not in known and is_sent(name)
        ]
    return {**found, f"{FOLDER}/rest.zip.gz": squeezed(rest)}


def _make(files: dict[str, bytes], python: dict[str, bytes], kept: Path) -> None:
    """Let Node.js start Python, and keep what it writes."""
    node = shutil.which("node")
    if node is None:
        raise RuntimeMissing("there is no Node.js on this machine to start it ahead")
    with TemporaryDirectory() as name:
        folder = Path(name)
        contents = {**files, **{f"pyodide/{each}": data for each, data in python.items()}}
        for path, data in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        (folder / "package.json").write_text('{"type": "module"}')
        made = folder / "made"
        made.mkdir()
        out = made / "memory"
        command = [node, MAKER, folder / "pyodide", folder / FOLDER, WARM_UP, out]
        words = [str(word) for word in command]
        try:
            subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=True)
        except subprocess.TimeoutExpired as error:
            raise RuntimeMissing(f"starting ahead took more than {SECONDS} seconds") from error
        except subprocess.CalledProcessError as error:
            raise RuntimeMissing(f"Python does not start ahead: {error.stderr[-500:]}") from error
        for old in kept.parent.glob("memory-*"):
            if old != kept:
                shutil.rmtree(old, ignore_errors=True)
        _keep(made, kept)


def _keep(made: Path, kept: Path) -> None:
    """Put a folder into its place as a whole; another process may be as far."""
    with TemporaryDirectory(dir=kept.parent) as name:
        beside = Path(name) / kept.name
        shutil.copytree(made, beside)
        try:
            beside.rename(kept)
        except OSError:
            if not kept.is_dir():
                raise
