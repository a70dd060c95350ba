"""Generated modules pass ruff as they are, checker and formatter, whatever they are made of."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends import with_kernels, writing
from tier import THOROUGH

import xg

DIAGRAMS = Path(__file__).parents[3] / "diagrams"
RULES = Path(__file__).parent / "golden" / "ruff.toml"


def sources() -> Iterator[tuple[str, str]]:
    """Modules with long lines, names that are taken twice, rows, fused edges, rings, steps.

    Daily with kernels in one backend and without in the other, turned from one file to the next.
    """
    plans = {"t5": None, "bert": "FSDP", "llama": "SP", "vit": None, "transformer": "Ring"}
    for place, (file, plan) in enumerate(plans.items()):
        (path,) = DIAGRAMS.rglob(f"{file}.xg")
        program = xg.compile(path, plan=plan)
        for turn, backend in enumerate(with_kernels(), place + 1):
            if THOROUGH or turn % 2 == 0:
                yield f"{file}_{backend}", program.source(backend)
            if THOROUGH or turn % 2 == 1:
                yield f"{file}_{backend}_kernels", program.source(backend, kernels=True)
    step = xg.compile(DIAGRAMS / "models" / "gpt2.xg").step()
    yield from ((f"step_{backend}", step.source(backend)) for backend in writing("step"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("emitted")
    for name, source in sources():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    shutil.copy(RULES, folder)
    return folder


def ruff(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["check", "format --diff"])
def test_ruff_has_nothing_to_say(folder: Path, command: str) -> None:
    ran = ruff(*command.split(), "--no-cache", str(folder))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_ruff_would_find_a_wrong_order(folder: Path) -> None:
    text = (folder / "vit_numpy.py").read_text(encoding="utf-8")
    bad = folder.parent / "wrong.py"
    bad.write_text(text.replace("import numpy as np\n", "import numpy as np\nimport math\n"))
    ran = ruff("check", "--no-cache", "--config", str(RULES), str(bad))
    assert ran.returncode == 1
    assert "I001" in ran.stdout
