"""The `dot` of a Graphviz that is installed on this machine."""

from __future__ import annotations

import shutil
import subprocess
from typing import Final

from xg.figures.engines.engine import Engine, EngineError
from xg.figures.engines.process import run_limited


def _path() -> str:
    path = shutil.which("dot")
    if path is None:
        raise EngineError("no `dot` on PATH")
    return path


def _find() -> str:
    try:
        done = subprocess.run(
            (_path(), "-V"), capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError("the `dot` on PATH does not run") from error
    return done.stderr.strip()


def _run(text: str) -> str:
    return run_limited((_path(), "-Tjson0"), text)


ENGINE: Final = Engine("dot", _find, _run)
