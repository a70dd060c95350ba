"""List the commands of the core, and the commands that packages add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xg.packages import packages

# `commands/NAME.py` has the arguments of each, and runs it.
CORE: Final = {
    "new": "start a small project that works",
    "build": "draw a figure, or write all figures, pages and code",
    "check": "find errors in names, shapes and sizes, in every choice of options",
    "show": "print the graph, the DOT text of a figure, the code or the cost",
    "fmt": "format files in the one canonical way",
    "run": "run a diagram on arrays from files",
    "verify": "prove gradients, generated code and parallel plans",
    "cost": "count parameters, FLOPs, memory and communication; --plan '*' compares all plans",
    "plan": "find the fastest plan for your ranks and their memory",
    "ops": "list the operators, or describe one: signature, formula, gradient, glyph",
    "completion": "print the Tab completion for bash, zsh or fish",
    "man": "print the manual page, with every command and option",
    "doctor": "check this installation, and say how to fix it",
}


def commands() -> Mapping[str, str]:
    """Return every command with its line in `xg --help`: the core first, then packages."""
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
