"""xg: write the operator graph, get its figure, its derived backward pass and readable code.

The names below are the public Python interface; each is imported when it is first used, so that
``import xg`` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xg.diagnostics.diagnostic import DiagnosticError
    from xg.driver import Program, compile
    from xg.importing import Imported, import_exported, trace

__version__ = "0.2.0"
__all__ = [
    "DiagnosticError",
    "Imported",
    "Program",
    "__version__",
    "compile",
    "import_exported",
    "trace",
]


def __getattr__(name: str) -> object:
    if name == "DiagnosticError":
        from xg.diagnostics.diagnostic import DiagnosticError  # the package itself imports nothing

        return DiagnosticError
    if name in ("Program", "compile"):
        from xg import driver  # as above

        return getattr(driver, name)
    if name in ("Imported", "import_exported", "trace"):
        from xg import importing  # as above

        return getattr(importing, name)
    raise AttributeError(f"module 'xg' has no attribute '{name}'")
