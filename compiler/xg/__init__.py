"""xg: write the operator graph, get its figure, its derived backward pass and readable code.

The names below are the public Python interface; each is imported when it is first used, so that
``import xg`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xg.diagnostic import DiagnosticError
    from xg.driver import Program, compile

__version__ = "0.1.0"
__all__ = ["DiagnosticError", "Program", "__version__", "compile"]


def __getattr__(name: str) -> object:
    if name == "DiagnosticError":
        from xg.diagnostic import DiagnosticError

        return DiagnosticError
    if name in ("Program", "compile"):
        from xg import driver

        return getattr(driver, name)
    raise AttributeError(f"module 'xg' has no attribute '{name}'")
