"""Packages beside the core: how xg finds them, and what each of them may add.

A package is a folder `xg_NAME` on Python's path with a module `package.py`, and that module has a
`PACKAGE`. The core imports none of them by name: it asks here, and says which package is missing.

Entry points of installed distributions would be the usual way, and reading them takes 50 ms, three
times what `xg --help` takes. Listing the folders takes less than one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, get_args

from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.packages.errors import NoPackage

# The functions that the core asks packages for: `explore` makes the page of a program, `explorer`
# the page for a notebook; `step` derives the step of a decoder, `prologue` the part before its
# steps; `pipelines` gives the passes for `--kernels`, `kernels` the functions of a backend by its
# title, and `fused_operators` the operators that those passes put in; `lock` writes the lock of
# files.
Service = Literal[
    "explore", "explorer", "step", "prologue", "pipelines", "kernels", "fused_operators", "lock"
]
SERVICES: Final[tuple[Service, ...]] = get_args(Service)
PREFIX: Final = "xg_"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of `xg doctor`: one thing that xg uses; `fix` is empty if nothing is missing."""

    thing: str
    state: Literal["ok", "missing", "not needed"]
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class PrintedForm:
    """A word for `xg show --as`: what it shows, and the action that prints it."""

    about: str
    show: str


@dataclass(frozen=True, slots=True)
class Package:
    """The additions of one package. Functions are given as ``package.module:function``.

    `commands` has a line of `xg --help` for each command, whose module in the package is
    `commands.NAME`. `forms` are further words for `xg show --as`; `options` has, for commands of
    the core, modules with further arguments. `services` are functions that the core asks for,
    `names` further public names of `xg`, and `probe` is the function that gives the package's
    lines of `xg doctor`.
    """

    name: str
    purpose: str
    commands: Mapping[str, str] = field(default_factory=dict[str, str])
    forms: Mapping[str, PrintedForm] = field(default_factory=dict[str, "PrintedForm"])
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    services: Mapping[Service, str] = field(default_factory=dict["Service", str])
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    probe: str = ""


@cache
def packages() -> tuple[Package, ...]:
    """Every package that is installed, by name."""
    found = sorted({name for folder in sys.path if folder for name in _candidates(folder)})
    return tuple(import_module(f"{name}.package").PACKAGE for name in found)


def _candidates(folder: str) -> Iterator[str]:
    """Yield the packages in a folder of Python's path."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
    except OSError:  # an archive, or a folder that is gone
        return
    yield from (name for name in names if Path(folder, name, "package.py").is_file())


def additions_to(command: str) -> Iterator[ModuleType]:
    """Yield the modules with arguments that packages add to a command of the core."""
    for package in packages():
        if command in package.options:
            yield import_module(package.options[command])


def forms() -> Mapping[str, PrintedForm]:
    """Return the words that packages add to `xg show --as`."""
    return {name: form for each in packages() for name, form in each.forms.items()}


def service(name: Service) -> Callable[..., Any]:
    """Return the function that a package provides; raises DiagnosticError if none does."""
    for package in packages():
        if name in package.services:
            return load(package.services[name])
    raise DiagnosticError.of(NoPackage(name))


def offers(name: Service) -> bool:
    """Tell whether a package provides a service."""
    return any(name in package.services for package in packages())


def load(path: str) -> Callable[..., Any]:
    """Import the function at ``package.module:function``."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)
