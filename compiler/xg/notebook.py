"""Diagrams in notebooks: `%load_ext xg`, then cells that begin with `%%xg`.

```
%%xg --set D=32 mlp
dim B, S, D
block MLP(X [B, S, D]) -> Y [B, S, D] { … }
```

shows the figure of the block, light or dark as the notebook is, and leaves the program in the
variable `mlp`; of several blocks that do not call each other it shows each, and leaves the last.
`%%xg --explore` shows the page to explore, `program.explorer()` that of a program.
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import field
from html import escape
from typing import NoReturn, Protocol

from xg.cli.arguments import add_choice, settings_of
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass
from xg.driver import HEIGHT, Program, compile_project
from xg.frontend.blocks import concerning, uncalled
from xg.frontend.project import Project, parse_project
from xg.frontend.typed import Settings
from xg.pages.explorer import explore
from xg_runtime.errors import InputError

__all__ = ["explorer", "Explorer"]


class Formatter(Protocol):
    """The forms of a value that a notebook can show, and remarks on them."""

    def format(self, obj: object) -> tuple[dict[str, object], dict[str, object]]:
        """Ask the value for them."""
        ...


class Publisher(Protocol):
    """The way to what a notebook shows below a cell."""

    def publish(self, data: dict[str, object], metadata: dict[str, object]) -> None:
        """Show one value."""
        ...

    def clear_output(self, wait: bool = False) -> None:
        """Remove what is shown, at once or when something else is."""


class Shell(Protocol):
    """The part of IPython that is used."""

    user_ns: dict[str, object]
    display_formatter: Formatter
    display_pub: Publisher

    def register_magic_function(
        self, func: Callable[..., object], magic_kind: str, magic_name: str
    ) -> None:
        """Make a function a magic of the name."""


@dataclass(frozen=True)
class Explorer:
    """The page to explore of a program; a notebook shows it, a saved one without a kernel too.

    The page is closed in: it may run its own script, and sees nothing of the notebook.
    """

    program: Program
    settings: Settings = field(default_factory=dict[str, "str | int"])
    height: int = HEIGHT

    def page(self) -> str:
        """The page as HTML."""
        return explore(self.program, self.settings).page.decode()

    def _repr_html_(self) -> str:
        """The page in a frame."""
        return (
            f'<iframe srcdoc="{escape(self.page())}" sandbox="allow-scripts" width="100%"'
            f' height="{self.height}" style="border: 0" title="{escape(repr(self.program))}">'
            "</iframe>"
        )


def explorer(program: Program, height: int = HEIGHT) -> Explorer:
    """The page to explore of a program that `xg.compile` gave."""
    if not isinstance(program, Program):  # pyright: ignore[reportUnnecessaryIsInstance] # a cell
        given = type(program).__name__
        raise TypeError(f"explorer() takes a program, as %%xg leaves it in a variable, not {given}")
    return Explorer(program, height=height)


def load_ipython_extension(shell: Shell) -> None:
    """Make `%%xg` a magic of the notebook; `%load_ext xg` calls this."""

    def cell(line: str, text: str) -> object:
        return _cell(shell, line, text)

    shell.register_magic_function(cell, "cell", "xg")


def _cell(shell: Shell, line: str, text: str) -> object:
    """The result that a cell shows: the program or its page, nothing where there are errors.

    Until it is there the cell says what it waits for.
    """
    try:
        options = _parser().parse_args(_words(line))
        _wait_for(shell, "the page to explore" if options.explore else "the figure")
        settings = settings_of(options)
        # the line of the magic counts, as it does in the numbers that Jupyter shows
        project = parse_project(f"\n{text}".encode("utf-8", "surrogateescape"), "<cell>")
        program = compile_project(project, options.block, settings, options.plan)
        if not (options.block or options.plan or options.explore):
            _show_others(shell, project, program, settings)
    except DiagnosticError as error:
        sys.stderr.write(f"{error}\n")
        return None
    except (_Misused, InputError) as error:
        sys.stderr.write(f"%%xg: {error}\n")
        return None
    shell.user_ns[options.name] = program
    return Explorer(program, settings) if options.explore else program


def _wait_for(shell: Shell, awaited: str) -> None:
    """Say what a cell waits for, until that or an error is shown."""
    shell.display_pub.publish({"text/plain": f"compiling; {awaited} comes here"}, {})
    shell.display_pub.clear_output(wait=True)


def _show_others(shell: Shell, project: Project, program: Program, settings: Settings) -> None:
    """Show the figures of blocks that nothing in the cell calls; that of `program` follows."""
    names = [name for name in uncalled(project.main) if name != program.graphs.main.block]
    for name in names:
        other = compile_project(project, name, concerning(project, name, settings))
        shell.display_pub.publish(*shell.display_formatter.format(other))


def _words(line: str) -> list[str]:
    """The words behind `%%xg`; a product of plans is quoted."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Misused(f"{line}: {str(error).lower()}") from None


class _Misused(Exception):
    """Words behind `%%xg` that it does not know."""


class _Parser(ArgumentParser):
    """A parser that does not end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise _Misused(message)


def _parser() -> _Parser:
    parser = _Parser("%%xg", add_help=False)
    parser.add_argument("name", nargs="?", default="program", type=_variable)
    parser.add_argument("--explore", action="store_true")
    add_choice(parser)
    return parser


def _variable(name: str) -> str:
    if not name.isidentifier():
        raise _Misused(f"{name} is no name for a variable")
    return name
