"""How long `xg` takes to start, against a Python that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.pairs import Action, Ratio, compare
from bench.programs import flat

LINES = 100


def measure(pairs: int) -> Iterator[Ratio]:
    """`xg --help`, and `xg check` of a file of 100 lines."""
    nothing = _process("-c", "pass")
    bare = "python -c pass"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "hundred.xg"
        text = flat(LINES - 4)
        assert len(text.splitlines()) == LINES
        file.write_text(text, encoding="utf-8")
        yield compare("xg --help", _process("-m", "xg", "--help"), bare, nothing, pairs, 5)
        check = _process("-m", "xg", "check", str(file))
        yield compare(f"xg check, {LINES} lines", check, bare, nothing, pairs, 15)


def _process(*arguments: str) -> Action:
    command = [sys.executable, "-P", *arguments]
    # As installed: with bytecode on disk.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return lambda: subprocess.run(command, check=True, capture_output=True, env=environment)
