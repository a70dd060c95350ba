"""Run one command from its words to its exit code: every failure ends in a message and a code."""

from __future__ import annotations

import gc
import os
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import NoReturn, Protocol, cast

from xg.cli.arguments import Rule, limit_threads, without_effect
from xg.cli.command_list import commands, home_of, line_of
from xg.cli.console import ColorChoice, Console, json_text
from xg.cli.exits import BUG, FILE_FAILED, INTERRUPTED, PROBLEM, UNREADABLE, USAGE
from xg.diagnostics.diagnostic import DiagnosticError, as_data
from xg.diagnostics.terminal import columns_of, fold, printable, similar
from xg.packages import additions_to

# The parser of a command's words.


class CommandParser(ArgumentParser):
    """Answers a wrong word by what is wrong and what to write instead, not by every option."""

    def __init__(self, name: str, about: str, example: str) -> None:
        """Begin the parser of `xg NAME`, which does what `about` says."""
        super().__init__(
            prog=f"xg {name}",
            description="\n".join(fold(about, columns_of(sys.stdout))),
            epilog="\n  ".join(("example:", *example.splitlines())),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._example = example.splitlines()[-1]
        self.further: Callable[[], Iterable[str]] = tuple  # lines of the help, made when it is read

    def format_help(self) -> str:
        """The help, and what there is further to say."""
        return super().format_help() + "".join(f"{line}\n" for line in self.further())

    def error(self, message: str) -> NoReturn:
        """Print the message and a help; exits."""
        text = f"{self.prog}: error: {printable(message)}\n  = help: {self._help(message)}\n"
        self.exit(USAGE, text)

    def _help(self, message: str) -> str:
        for word in re.findall(r"unrecognized arguments: (--[\w-]+)", message):
            other = similar(word, re.findall(r"--[\w-]+", self.format_help()))
            if other:
                return f"did you mean {other}?"
        if re.search(r"unrecognized arguments: \S+\.bin\b", message):
            return "a pattern for several files needs quotes: --data 'shard_*.bin'"
        return f"{self.prog} --help lists what it takes\n  = help: an example is {self._example}"


class Command(Protocol):
    """The module of a command.

    `EXAMPLE` works in an empty folder: its last line is the command, lines before prepare it.
    """

    EXAMPLE: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare what the command takes."""
        ...

    def run(self, options: Namespace, console: Console) -> int:
        """Do it; returns the exit code."""
        ...


def dispatch_last(name: str, arguments: Sequence[str]) -> int:
    """As `dispatch`, in a process that ends then.

    Such a process keeps most of the objects it creates: the garbage collector searches it less
    often, and not at all when it ends. That saves a command like `xg check` a fifth of its time.
    """
    _, _, oldest = gc.get_threshold()
    gc.set_threshold(200_000, 50, oldest)
    code = dispatch(name, arguments)
    gc.freeze()
    return code


def dispatch(name: str, arguments: Sequence[str]) -> int:
    """Parse the words after a command's name, and run the command."""
    if home_of(name) is None:
        return _unknown(name)
    try:
        options = parse(name, arguments)
    except SystemExit as stop:  # argparse has said why
        return int(stop.code or 0)
    color: ColorChoice = options.color
    console = Console(color)
    refusal = _without_effect(name, options)
    if refusal is not None:
        console.note(refusal)
        return USAGE
    try:
        return _run_command(name, options, console)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FILE_FAILED


def _without_effect(name: str, options: Namespace) -> str | None:
    if not any(word.startswith("--") for word in options.words):
        return None
    return without_effect(name, rules_of(name), options)


def rules_of(name: str) -> list[Rule]:
    """The rules of a command's options, those that packages add among them."""
    modules = (command_of(name), *additions_to(name))
    return [rule for module in modules for rule in getattr(module, "RULES", ())]


def _unknown(name: str) -> int:
    other = similar(name, commands())
    hint = f"did you mean {other}?" if other else "xg --help lists them"
    if name.endswith(".xg"):
        hint = f"did you mean xg build {printable(name)}?"
    sys.stderr.write(f"xg: there is no command {printable(name)}: {hint}\n")
    return USAGE


def parse(name: str, arguments: Sequence[str]) -> Namespace:
    """The parsed arguments of a command, and `words` themselves.

    SystemExit for wrong usage.
    """
    options = parser_of(name, command_of(name)).parse_intermixed_args(arguments)
    options.words = list(arguments)  # passed on to ranks that are processes
    return options


def command_of(name: str) -> Command:
    """The module of a command."""
    return cast("Command", import_module(f"{home_of(name)}.commands.{name}"))


def parser_of(name: str, command: Command) -> ArgumentParser:
    """The parser of a command."""
    line = line_of(name)
    parser = CommandParser(name, f"{line[0].upper()}{line[1:]}.", command.EXAMPLE)
    command.add_arguments(parser)
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto")
    return parser


def _run_command(name: str, options: Namespace, console: Console) -> int:
    try:
        if hasattr(options, "threads"):
            limit_threads(options.threads)  # NumPy reads the limit when `run` imports it
        code = command_of(name).run(options, console)
        sys.stdout.flush()
        return code
    except DiagnosticError as error:
        return _report_errors(error, options, console)
    except KeyboardInterrupt:
        console.note("xg: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:
        return _missing(name, error, console) or _bug(error, console)
    except Exception as error:
        return _runtime_code(error, console) or _bug(error, console)


def _report_errors(error: DiagnosticError, options: Namespace, console: Console) -> int:
    console.diagnose(error.diagnostics)
    if getattr(options, "json", False):
        diagnostic_datas = [as_data(diagnostic) for diagnostic in error.diagnostics]
        console.write(json_text({"diagnostics": diagnostic_datas}))
    unread = all(diagnostic.code == UNREADABLE for diagnostic in error.diagnostics)
    return FILE_FAILED if unread else PROBLEM


def _runtime_code(error: Exception, console: Console) -> int | None:
    """The exit code of an error that the runtime foresees; None for any other."""
    if "xg_runtime.errors" not in sys.modules:
        return None
    from xg_runtime.errors import XgRuntimeError  # already loaded here

    if not isinstance(error, XgRuntimeError):
        return None
    console.note(f"xg: {error.message}")
    for line in error.details:
        console.note(f"  {line}")
    return error.exit_code


def _missing(name: str, error: ModuleNotFoundError, console: Console) -> int | None:
    """The exit code where a package is not installed; None for a module of ours."""
    package = (error.name or "").partition(".")[0]
    if not package or package.startswith("xg"):
        return None
    console.note(f"xg: xg {name} needs {package}, which is not installed: pip install {package}")
    return PROBLEM


def _bug(error: Exception, console: Console) -> int:
    for line in bug_lines(error):
        console.note(line)
    return BUG


def bug_lines(error: Exception) -> tuple[str, ...]:
    """A bug of xg: what happened and where, in a few lines, never a bare traceback."""
    from traceback import extract_tb  # only a bug pays for it

    frames = extract_tb(error.__traceback__)[-3:]
    places = [f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames]  # noqa: PTH119 - a name, not a place
    return (
        f"xg: internal error: {type(error).__name__}: {printable(str(error))}",
        f"  at {' < '.join(reversed(places))}",
        "  This is a bug in xg. Please report it, with this text and the file.",
    )
