"""Generated code as a module: made from its text, never written to disk, never found by import."""

from __future__ import annotations

import linecache
from types import ModuleType


def load(source: str, name: str) -> ModuleType:
    """The module; errors inside it show their lines."""
    file = f"<{name}.py>"
    module = ModuleType(name)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), module.__dict__)
    return module
