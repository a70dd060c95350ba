"""xg: write the operator graph, get its figure, its derived backward pass and readable code.

The names below are the public Python interface; each is imported when it is first used, so that
``import xg`` costs nothing. Packages add further ones, such as `trace`; type checkers find those
where they are defined (`from xg_torch.importing import trace`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xg.diagnostics.diagnostic import DiagnosticError
    from xg.driver import Program, compile

__version__ = "0.2.0"
__all__ = ["DiagnosticError", "Program", "__version__", "compile"]

_MODULES = {
    "DiagnosticError": "xg.diagnostics.diagnostic",
    "Program": "xg.driver",
    "compile": "xg.driver",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a name of any package
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name.startswith("_"):  # Python asks for these of every module
        raise AttributeError(f"module 'xg' has no attribute '{name}'")
    from xg.packages import load, packages  # the core's own names need neither

    for package in packages():
        if name in package.names:
            return load(package.names[name])
    raise AttributeError(f"module 'xg' has no attribute '{name}'")
