"""Run xg with the lowest release of every package that pyproject.toml allows.

    python tests/lowest.py           # all extras, in build/lowest
    python tests/lowest.py lsp onnx  # only these

Each `NAME>=X` of the project is installed as `NAME==X` into an environment of its own. Then a
diagram is checked, drawn, proven and exported there: a bound that is too low fails, such as one
whose release lacks a function that xg calls. `./dev verify-all` does this.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "lowest"
DIAGRAM: Final = "diagrams/notation/mlp.xg"
COMMANDS: Final[dict[str, list[list[str]]]] = {
    "": [
        ["check", DIAGRAM],
        ["build", DIAGRAM, "-o", "build/lowest/out", "--all"],
        ["verify", DIAGRAM],
        ["verify", "diagrams/models/transformer.xg", "--plan", "DP"],
    ],
    "torch": [["verify", DIAGRAM, "--against", "torch"]],
    "jax": [["verify", DIAGRAM, "--against", "jax"]],
    "onnx": [["export", DIAGRAM, "--seed", "0", "-o", "build/lowest/out/mlp.onnx"]],
}
IMPORTS: Final = {
    "lsp": "xg_editor.language_server",
    "generate": "tokenizers",
    "datasets": "datasets",
}


def lowest(requirement: str) -> str:
    """Pin a requirement to its lower bound; raise ValueError if it has none."""
    name, sign, rest = requirement.partition(">=")
    if "==" in requirement:
        return requirement
    if not sign:
        raise ValueError(f"{requirement} has no lower bound")
    return f"{name}=={rest.partition(',')[0]}"


def requirements(extras: list[str]) -> list[str]:
    """List what xg and some of its extras need, in the lowest releases."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    optional = project["optional-dependencies"]
    listed = [*project["dependencies"], *(each for extra in extras for each in optional[extra])]
    return sorted({lowest(each) for each in listed})


def main() -> None:
    """Install the lowest releases and run xg with them."""
    extras = sys.argv[1:] or ["torch", *COMMANDS.keys() - {"", "torch"}, *IMPORTS]
    venv.create(FOLDER, with_pip=True, clear=True)
    python = str(FOLDER / "bin" / "python")
    pinned = requirements(extras)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *pinned], check=True)
    paths = os.pathsep.join(str(ROOT / name) for name in ("compiler", "runtime", "grammar"))
    environment = {**os.environ, "PYTHONPATH": paths}
    words = [["-m", "xg", *each] for extra in ("", *extras) for each in COMMANDS.get(extra, ())]
    words += [["-c", f"import {IMPORTS[extra]}"] for extra in extras if extra in IMPORTS]
    for each in words:
        subprocess.run([python, *each], check=True, cwd=ROOT, env=environment)


if __name__ == "__main__":
    main()
