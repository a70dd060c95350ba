"""Define layout engines, and run an installed Graphviz in a limited child process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final, cast

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.limits import LayoutMebibytes, LayoutSeconds


class EngineError(Exception):
    """An engine is not there, or it failed on this problem; the message says which and why."""


class OutOfBudgetError(EngineError):
    """The time or memory for one figure is used up: another engine would fare no better."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A layout engine. `find` and `run` raise EngineError."""

    name: str
    find: Callable[[], str]  # its version, in words
    run: Callable[[str], str]  # DOT text -> Graphviz's json0


# Running a layout engine as a child process that may take only so much time and memory.


def run_with_limits(command: Sequence[str], text: str) -> str:
    """Give `text` to a command and return what it prints. Raises EngineError where it fails."""
    if shutil.which(command[0]) is None:
        raise EngineError(f"it does not start: there is no {command[0]}")
    try:
        done = subprocess.run(
            [*_limiting(), *command],
            input=text.encode("utf-8"),
            capture_output=True,
            timeout=LayoutSeconds.maximum,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OutOfBudgetError(f"no layout within {LayoutSeconds.maximum} seconds") from error
    except OSError as error:
        raise EngineError(f"it does not start: {error.strerror}") from error
    answer = done.stdout.decode("utf-8", "replace")
    # Graphviz 2.43 reports the invisible edges that it does not draw, and places every box.
    if not answer.rstrip().endswith("}"):
        message = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise EngineError(message[-1] if message else f"it ended with code {done.returncode}")
    return answer


def _limiting() -> Sequence[str]:
    """A prefix that limits the memory of a command: a shell, which becomes the command.

    Python could set the limit between fork and exec, but not safely where a library has threads, as
    torch and JAX do. macOS refuses the limit; the time limit holds there all the same.
    """
    if sys.platform == "win32":
        return ()
    size = LayoutMebibytes.maximum * 2**10
    return "/bin/sh", "-c", f'ulimit -v {size} 2>/dev/null; exec "$@"', "sh"


# The `dot` of a Graphviz of an installed Graphviz, called as the package graphviz calls it.


def _find_command() -> str:
    from graphviz import ExecutableNotFound, version  # this engine is the last to be tried

    try:
        return f"dot - graphviz version {'.'.join(map(str, version()))}"
    except ExecutableNotFound as error:
        raise EngineError("no `dot` on PATH") from error
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise EngineError("the `dot` on PATH does not run") from error


def _run_command(text: str) -> str:
    from graphviz.backend import dot_command  # as above

    # not graphviz.pipe_string: that limits neither time nor memory
    return run_with_limits(cast("Any", dot_command).command("dot", "json0"), text)


COMMAND: Final = Engine("dot", _find_command, _run_command)


# Graphviz in the wheel of `pygraphviz`, in a child process: a call into C cannot be interrupted.
#
# The wheel imports only where some libraries of the X window system are installed, so being there
# and running are two things.


_PROGRAM: Final = """\
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode("utf-8"))
sys.stdout.buffer.write(graph.draw(format="json0", prog="dot"))
"""


def _find_pygraphviz() -> str:
    if find_spec("pygraphviz") is None:
        raise EngineError("pygraphviz is not installed")
    return f"Graphviz in pygraphviz {version('pygraphviz')}"


def _run_pygraphviz(text: str) -> str:
    _find_pygraphviz()
    return run_with_limits((sys.executable, "-c", _PROGRAM), text)


PYGRAPHVIZ: Final = Engine("pygraphviz", _find_pygraphviz, _run_pygraphviz)
