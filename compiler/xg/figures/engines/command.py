"""The `dot` of a Graphviz of an installed Graphviz, called as the package graphviz calls it."""

from __future__ import annotations

import subprocess
from typing import Any, Final, cast

from xg.figures.engines.engine import Engine, EngineError, run_limited


def _find() -> str:
    from graphviz import ExecutableNotFound, version  # this engine is the last to be tried

    try:
        return f"dot - graphviz version {'.'.join(map(str, version()))}"
    except ExecutableNotFound as error:
        raise EngineError("no `dot` on PATH") from error
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise EngineError("the `dot` on PATH does not run") from error


def _run(text: str) -> str:
    from graphviz.backend import dot_command  # as above

    # not graphviz.pipe_string: that limits neither time nor memory
    return run_limited(cast("Any", dot_command).command("dot", "json0"), text)


ENGINE: Final = Engine("dot", _find, _run)
