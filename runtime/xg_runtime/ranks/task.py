"""Tasks for ranks, as data: sent to other processes as JSON and arrays, not as code.

A task names a function of this package, `xg_runtime.module:function`, or of a file,
`path/to/file.py:function`. Every rank calls it with the options and arrays of the task:

    def function(options: Json, arrays: Arrays) -> Answer: ...
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

from xg_runtime.errors import FileError, InputError
from xg_runtime.module import Array, Arrays
from xg_runtime.ranks.comm_counters import Count, Key

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A function by its name, what it is called with, and what must be the same on all ranks."""

    function: str
    options: Json = field(default_factory=dict[str, Any])
    arrays: Arrays = field(default_factory=dict[str, Array], repr=False)
    facts: Mapping[str, str] = field(default_factory=dict[str, str])  # plan, version, dtype


@dataclass(frozen=True)
class Answer:
    """The results of a rank, and, filled in for it, its communication."""

    arrays: Arrays = field(default_factory=dict[str, Array], repr=False)
    facts: Json = field(default_factory=dict[str, Any])
    counts: Mapping[Key, Count] = field(default_factory=dict[Key, Count])


Function: TypeAlias = Callable[[Json, Arrays], Answer]


def function_of(task: Task) -> Function:
    """Return the function that a task names; raises InputError if it does not exist."""
    place, _, name = task.function.rpartition(":")
    module = load_file(Path(place)) if place.endswith(".py") else _own_module(place)
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"there is no function {name} in {place}")
    return cast(Function, function)


def options_of(task: Task) -> Json:
    """The options of a task as a rank gets them: its own, and as they come back from JSON."""
    return json.loads(json.dumps(task.options))


def load_file(path: Path) -> ModuleType:
    """Import a file as a module of its own; raises FileError where it cannot be read."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileError(f"cannot load {path}: it is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _own_module(name: str) -> ModuleType:
    if not name.startswith("xg_runtime."):
        raise InputError(f"a task is a module of xg_runtime or a .py file; found {name}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f"there is no module {error.name}") from error
