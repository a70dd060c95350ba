"""The commands: those of the core, and those that packages add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.packages import packages

# `commands/NAME.py` has the arguments of each, and runs it.
CORE: Final = {
    "new": "write a small project that works, to be changed",
    "build": "write figures and code",
    "check": "look for errors in names, shapes and sizes, in every choice of options",
    "show": "print one view: the graph, a figure's DOT, the code, the cost",
    "fmt": "lay files out in the one canonical way",
    "run": "run a diagram on arrays from files",
    "verify": "prove gradients by differences, and code by the interpreter, at the edges too",
    "cost": "count parameters, FLOPs, memory and communication; --plan '*' compares all plans",
    "plan": "search the quickest plan for so many ranks with so much memory",
    "ops": "list the operators: signature, formula, gradient, glyph",
    "completion": "print what the Tab key completes in bash, zsh or fish",
    "man": "print the manual page: every command and option",
    "doctor": "say what was found on this machine, and how to fix it",
}


def commands() -> Mapping[str, str]:
    """Return every command with its line in `xg --help`: the core's, then those of packages."""
    added = {name: about for each in packages() for name, about in each.commands.items()}
    return {**CORE, **added}


def line_of(name: str) -> str:
    """Return the line of a command in `xg --help`; packages are only looked for if need be."""
    return CORE.get(name) or commands()[name]


def home_of(name: str) -> str | None:
    """Return the Python package with the modules of a command, or None for no command."""
    if name in CORE:
        return "xg.cli"
    return next((each.name for each in packages() if name in each.commands), None)
