"""Diagrams in notebooks: `%load_ext xg`, then cells that begin with `%%xg`.

```
%%xg --set D=32 mlp
dim B, S, D
block MLP(X [B, S, D]) -> Y [B, S, D] { … }
```

shows the figure of the block, light or dark as the notebook is, and leaves the program in the
variable `mlp`; of several blocks that do not call each other it shows each, and leaves the last.
`%%xg --explore` shows the page to explore, `program.explorer()` that of a program. A cell with
errors fails, and leaves no program.

The page is in a frame that can't see the notebook, which may hold secrets. A widget would need its
extension wherever the saved file is read.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from html import escape
from keyword import iskeyword
from operator import index
from typing import Final, NoReturn, Protocol

from xg.cli.arguments import add_choice, settings_of
from xg.diagnostics.diagnostic import DiagnosticError
from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.driver import HEIGHT, Program, compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import Project, parse_project
from xg.frontend.typed import Settings, concerning, root_blocks
from xg_pages.explorer import explore
from xg_runtime.errors import InputError

__all__ = ["explorer", "Explorer"]

VARIABLE: Final = "program"  # of a cell that names none


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

    def __post_init__(self) -> None:
        """Raise TypeError and ValueError for a height that is no number of pixels."""
        try:
            pixels = index(self.height)
        except TypeError:
            wrong = f"height is a number of pixels, such as {HEIGHT}, not {self.height!r}"
            raise TypeError(wrong) from None
        if pixels < 1:
            raise ValueError(f"height is a number of pixels, at least 1, not {pixels}")

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

    def xg(line: str, cell: str) -> object:
        return _shown(shell, line, cell)

    xg.__doc__ = _parser().format_help()  # which `%%xg?` shows
    shell.register_magic_function(xg, "cell", "xg")


class CellError(Exception):
    """The errors of a cell, which a notebook shows as they are, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows."""
        return str(self).splitlines()


def _shown(shell: Shell, line: str, text: str) -> object:
    """The result that a cell shows: the program or its page; raises CellError.

    Until it is there the cell says what it waits for.
    """
    options = Namespace(name=None)
    try:
        _parser().parse_args(_words(line), options)
        if options.help:
            shell.display_pub.publish({"text/plain": _parser().format_help()}, {})
            return None
        shell.user_ns.pop(options.name or VARIABLE, None)  # which an error would leave as it was
        return _compile_cell(shell, options, text)
    except DiagnosticError as error:
        raise CellError(str(error)) from None
    except (_Misused, InputError) as error:
        _forget(shell, [options.name] if options.name else line.split())
        raise CellError(f"%%xg: {error}") from None


def _compile_cell(shell: Shell, options: Namespace, text: str) -> object:
    """Return a cell's program or page; raises DiagnosticError with all that `xg check` finds."""
    _wait_for(shell, "the page to explore" if options.explore else "the figure")
    settings = settings_of(options)
    # the line of the magic counts, as it does in the numbers that Jupyter shows
    project = parse_project(f"\n{text}".encode("utf-8", "surrogateescape"), "<cell>")
    found = check_choices(project, options.block, settings, options.plan)
    if any(each.severity == "error" for each in found):
        raise DiagnosticError(found)
    program = compile_project(project, options.block, settings, options.plan)
    if not (options.block or options.plan):
        _show_other_blocks(shell, project, program, settings, explore=options.explore)
    shell.user_ns[options.name or VARIABLE] = program
    return Explorer(program, settings) if options.explore else program


def _forget(shell: Shell, words: Sequence[str]) -> None:
    """Remove the program that a misused cell would have replaced."""
    named = [word for word in words if isinstance(shell.user_ns.get(word), Program)]
    for name in named or [VARIABLE]:
        shell.user_ns.pop(name, None)


def _wait_for(shell: Shell, awaited: str) -> None:
    """Say what a cell waits for, until that or an error is shown."""
    shell.display_pub.publish({"text/plain": f"compiling; {awaited} comes here"}, {})
    shell.display_pub.clear_output(wait=True)


def _show_other_blocks(
    shell: Shell, project: Project, program: Program, settings: Settings, *, explore: bool
) -> None:
    """Show the blocks that nothing in the cell calls, as `program` is shown, which follows."""
    names = [name for name in root_blocks(project.main) if name != program.graphs.main.block]
    for name in names:
        own = concerning(project, name, settings)
        other = compile_project(project, name, own)
        shown = Explorer(other, own) if explore else other
        shell.display_pub.publish(*shell.display_formatter.format(shown))


def _words(line: str) -> list[str]:
    """Split the words after `%%xg`; a product of plans has to be quoted."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Misused(f"{line}: {str(error).lower()}") from None


class _Misused(Exception):
    """Words after `%%xg` that it does not know."""


class _Parser(ArgumentParser):
    """A parser that does not end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise _Misused(message)


def _parser() -> _Parser:
    parser = _Parser(
        "%%xg",
        description="Compile the diagram below, show its forward figure, and leave the program in "
        "a variable.",
        epilog="An example: %%xg mlp --set D=32",
        add_help=False,
    )
    parser.add_argument(
        "name", nargs="?", type=_variable, help=f"the variable; default: {VARIABLE}"
    )
    parser.add_argument("--help", action="store_true", help="show this text")
    parser.add_argument(
        "--explore", action="store_true", help="show the page to explore, not the figure"
    )
    add_choice(parser)
    return parser


def _variable(name: str) -> str:
    if not name.isidentifier():
        raise _Misused(f"{name} is no name for a variable")
    if iskeyword(name):
        raise _Misused(f"{name} is a keyword of Python, and no name for a variable")
    return name
