"""Generated code as a module: made from its text, and importable while anything refers to it.

A pickle names the module of a class. So every module has a name of its own, made of its text, and
is found by that name: in the process that made it, and in any other that has loaded the same text.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final
from weakref import WeakValueDictionary


class _Generated(MetaPathFinder, Loader):
    """Finds the modules that were loaded; keeps none of them."""

    def __init__(self) -> None:
        self.modules: WeakValueDictionary[str, ModuleType] = WeakValueDictionary()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a generated module."""
        del path, target
        return ModuleSpec(fullname, self) if fullname in self.modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module as it was loaded."""
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: it has been run."""


_GENERATED: Final = _Generated()


def load(source: str, name: str) -> ModuleType:
    """The module; errors inside it show their lines. The same text gives the same module."""
    full = f"xg_{name}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    module = _GENERATED.modules.get(full)
    if module is not None:
        return module
    file = f"<{name}.py>"
    module = ModuleType(full)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    module.__dict__["__generated__"] = module  # as long as a class of it lives, so does it
    _GENERATED.modules[full] = module
    if _GENERATED not in sys.meta_path:
        sys.meta_path.append(_GENERATED)
    return module
