"""xg: write the operator graph, get its figure, its derived backward pass and readable code.

The names below are the public Python interface; each is imported when it is first used, so that
``import xg`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xg.diagnostics.diagnostic import DiagnosticError
    from xg.driver import Program, compile
    from xg.importing import Imported, import_exported, trace

__version__ = "0.2.0"
__all__ = [
    "DiagnosticError", "Imported", "Program", "__version__", "compile", "import_exported", "trace",
]  # fmt: skip


# Where each name is defined, the magic of notebooks (`%load_ext xg`) among them.
_MODULES = {
    "DiagnosticError": "xg.diagnostics.diagnostic",
    "Imported": "xg.importing",
    "Program": "xg.driver",
    "compile": "xg.driver",
    "import_exported": "xg.importing",
    "load_ipython_extension": "xg.notebook",
    "trace": "xg.importing",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'xg' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
