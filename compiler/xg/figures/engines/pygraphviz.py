"""Graphviz in the wheel of `pygraphviz`, in a child process: a call into C cannot be interrupted.

The wheel imports only where some libraries of the X window system are installed, so being there
and running are two things.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from xg.figures.engines.engine import Engine, EngineError, run_limited

_PROGRAM: Final = """\
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode("utf-8"))
sys.stdout.buffer.write(graph.draw(format="json0", prog="dot"))
"""


def _find() -> str:
    if find_spec("pygraphviz") is None:
        raise EngineError("pygraphviz is not installed")
    return f"Graphviz in pygraphviz {version('pygraphviz')}"


def _run(text: str) -> str:
    _find()
    return run_limited((sys.executable, "-c", _PROGRAM), text)


ENGINE: Final = Engine("pygraphviz", _find, _run)
