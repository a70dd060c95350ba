"""The gallery is the same bytes wherever it is built: bytes depend on source and version only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from library import LIBRARY, another_user
from tier import THOROUGH

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("compiler", "runtime", "grammar")
# Routing, a mesh, a loop, two stacks, plans, images, random numbers: the others are relatives.
DAILY = ("moe", "node_i", "rwkv", "t5", "transformer", "unet", "vae")
DIAGRAMS = [file for file in sorted(LIBRARY.rglob("*.xg")) if THOROUGH or file.stem in DAILY]
# Drawing these three takes half of the time; what they alone have are operators, drawn as others.
LONG: frozenset[str] = frozenset(() if THOROUGH else ("moe", "rwkv", "t5"))
WRITTEN = "dot,numpy"
DRAWN = "svg,pdf"  # a PNG is drawn from the SVG, and takes as long as all the rest
MACHINES = {
    "here": {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "COLUMNS": "60"},
    "far away": {"PYTHONHASHSEED": "2", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "LANG": "tr"},
}


def _start(folder: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start to build the gallery in a folder of its own, as on a machine of its own."""
    folder.mkdir()
    shutil.copytree(LIBRARY, folder / "diagrams")
    paths = os.pathsep.join(str(ROOT / name) for name in SOURCE_ROOTS)
    long = [file for file in DIAGRAMS if file.stem in LONG]
    others = [file for file in DIAGRAMS if file.stem not in LONG]
    commands = [
        _command(others, f"{WRITTEN},{DRAWN}"),
        *([_command(long, WRITTEN)] if long else []),
    ]
    return subprocess.Popen(
        [sys.executable, "-P", "-c", f"from xg.cli import main; {'; '.join(commands)}"],
        cwd=folder / "diagrams",
        env={**another_user(folder), **variables, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _command(files: list[Path], kinds: str) -> str:
    words = [str(file.relative_to(LIBRARY)) for file in files]
    return f"assert main({['build', *words, '-o', '../out', f'--only={kinds}']}) == 0"


def _read(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def _galleries(folder: Path) -> list[dict[str, bytes]]:
    started = {name: _start(folder / name, variables) for name, variables in MACHINES.items()}
    for process in started.values():
        said, _ = process.communicate()
        assert process.returncode == 0, said.decode("utf-8")
    return [_read(folder / name / "out") for name in MACHINES]


def test_every_byte_is_the_same_everywhere(tmp_path: Path) -> None:
    here, far_away = _galleries(tmp_path)
    assert here.keys() == far_away.keys()
    assert [name for name in here if here[name] != far_away[name]] == []
    for diagram in DIAGRAMS:
        names = [name for name in here if name.startswith(diagram.stem)]
        endings = (".dot", "_numpy.py", *(() if diagram.stem in LONG else (".svg", ".pdf")))
        assert all(any(name.endswith(ending) for name in names) for ending in endings), diagram.stem
    for place in (ROOT, tmp_path):
        assert [name for name in here if str(place).encode() in here[name]] == []
