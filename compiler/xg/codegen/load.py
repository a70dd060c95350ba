"""Generated code as a module: made from its text, never written to disk, never found by import."""

from __future__ import annotations

import linecache
from importlib.util import find_spec
from types import ModuleType
from typing import ClassVar

from xg.diagnostics.diagnostic import Diagnostic, DiagnosticError, Problem, problem_kind


@problem_kind
class NoTorch(Problem):
    """Code for torch that is to be run where torch is not installed."""

    code: ClassVar[str] = "XG0502"

    def diagnostic(self) -> Diagnostic:
        """Say how to get it."""
        return self.report(
            "torch is not installed", help=("pip install 'xg[torch]', or use --backend numpy",)
        )


def load(source: str, name: str) -> ModuleType:
    """The module; errors inside it show their lines."""
    file = f"<{name}.py>"
    module = ModuleType(name)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def require_torch() -> None:
    """Raise DiagnosticError where torch is not installed."""
    if find_spec("torch") is None:
        raise DiagnosticError.of(NoTorch())
