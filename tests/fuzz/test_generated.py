"""Random programs: text, generated code and gradients agree with their references."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.hunt import hunt, outcome
from fuzz.program import generate
from fuzz.proof import check_layout, compiled, prove
from fuzz.recorded import read, recorded
from fuzz.sketch import Sketch
from tier import THOROUGH

from xg.codegen.numpy.dialect import emit

PROGRAMS = 2_000 if THOROUGH else 40
CHUNK = 20
FORMATTED = 150 if THOROUGH else 30  # of them are shown to the formatter and the linter


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_random_programs(start: int) -> None:
    failures = [str(found) for found in hunt(range(start, start + CHUNK))]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("path", recorded("program"), ids=lambda path: path.stem)
def test_programs_that_were_wrong_once(path: Path) -> None:
    program = read(path)
    assert outcome(program, program.seed) == ("", "")


def test_a_seed_gives_the_same_program_always() -> None:
    assert [str(generate(seed)) for seed in range(20)] == [str(generate(s)) for s in range(20)]


def test_generated_modules_are_formatted_and_clean(tmp_path: Path) -> None:
    for seed in range(FORMATTED):
        (tmp_path / f"case_{seed}.py").write_text(_source(generate(seed)), encoding="utf-8")
    for command in (["format", "--check"], ["check", "--select", "F"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", str(tmp_path)]
        ran = subprocess.run(ruff, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


def _source(sketch: Sketch) -> str:
    return emit(compiled(check_layout(str(sketch)), sketch, dead=False))


def test_proof_is_repeatable() -> None:
    assert prove(generate(1), 1) == prove(generate(1), 1)
