"""A module with kernels reuses its memory: steps request no new pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import xg

DIAGRAM = Path(__file__).parents[3] / "diagrams" / "notation" / "mlp.xg"
STEPS = """
from resource import RUSAGE_SELF, getrusage
import numpy as np
import module

params, X = module.init(0), np.ones((8, 64, 64), np.float32)

def step():
    outputs, saved = module.forward(params, {"X": X})
    module.backward(params, saved, outputs)

for _ in range(3):
    step()
before = getrusage(RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print((getrusage(RUSAGE_SELF).ru_minflt - before) / 10)
"""


def faults(source: str, folder: Path) -> float:
    """Page faults in a step of a module that has a process for itself."""
    folder.mkdir()
    (folder / "module.py").write_text(source, encoding="utf-8")
    (folder / "steps.py").write_text(STEPS, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "steps.py"], cwd=folder, capture_output=True, check=True, text=True
    )
    return float(run.stdout)


def test_what_a_step_frees_is_there_for_the_next(tmp_path: Path) -> None:
    source = xg.compile(DIAGRAM).source("numpy", kernels=True)
    line = "np.empty(2**22 - 2**10)\n"
    assert source.count(line) == 1
    assert faults(source, tmp_path / "with") < 10
    assert faults(source.replace(line, ""), tmp_path / "without") > 100


def test_torch_has_it_too_and_the_readable_form_has_not() -> None:
    program = xg.compile(DIAGRAM)
    assert (
        program.source("torch", kernels=True).count('torch.empty(2**23 - 2**11, device="cpu")') == 1
    )
    assert "empty(2**2" not in program.source("torch") + program.source("numpy")
