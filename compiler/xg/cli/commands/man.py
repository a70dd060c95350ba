"""`xg man`: every command and option as a page for `man`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from xg import __version__
from xg.cli import ABOUT, exits
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.shell_scripts import CommandWords, GivenWord, Option, all_commands

EXAMPLE = "xg man"


def add_arguments(parser: ArgumentParser) -> None:
    """Add no arguments."""
    del parser


# The manual page, in the macros of man(7).


MEANINGS = {
    exits.FINE: "all is well",
    exits.PROBLEM: "the input has an error, or a check failed",
    exits.USAGE: "wrong arguments on the command line",
    exits.BUG: "a bug in xg",
    exits.RUN_FAILED: "a computation failed: a value is not a number, or a checkpoint is damaged",
    exits.FILE_FAILED: "a file could not be read or written",
    exits.INTERRUPTED: "interrupted by Ctrl-C; xg serve and --watch return 0 instead",
}


def manual(commands: Sequence[CommandWords], version: str, about: str) -> str:
    """The page, for `man`."""
    lines = [
        f'.TH XG 1 "" "xg {_plain(version)}"',
        *(".SH NAME", f"xg \\- {_plain(about)}"),
        *(".SH SYNOPSIS", ".B xg", ".I COMMAND FILE\\fR...", "[\\fIoptions\\fR]"),
        ".SH COMMANDS",
        *(line for command in commands for line in _command(command)),
        ".SH EXIT STATUS",
        *(line for code, meaning in MEANINGS.items() for line in _item(f"\\fB{code}\\fR", meaning)),
    ]
    return "\n".join(lines) + "\n"


def _command(command: CommandWords) -> Iterator[str]:
    operands = "".join(f" {_operand_usage(operand)}" for operand in command.operands)
    yield f'.SS "xg {command.name}{operands} [options]"'
    yield _plain(f"{command.about[0].upper()}{command.about[1:]}.")
    for operand in command.operands:
        yield from _item(f"\\fI{_plain(operand.value.name)}\\fR", operand.about)
    for option in command.options:
        yield from _item(_option_usage(option), option.about)
    lines = map(_plain, command.example.splitlines())
    yield from (".PP", "Example:", ".PP", ".nf", ".RS", *lines, ".RE", ".fi")


def _operand_usage(operand: GivenWord) -> str:
    name = _plain(operand.value.name)
    return {"1": name, "+": f"{name}...", "?": f"[{name}]", "*": f"[{name}...]"}[operand.count]


def _option_usage(option: Option) -> str:
    names = ", ".join(f"\\fB{_plain(each)}\\fR" for each in option.spellings)
    if option.value is None:
        return names
    words = ", ".join(option.value.words) if option.value.kind == "one" else ""
    return f"{names} \\fI{_plain(f'{{{words}}}' if words else option.value.name)}\\fR"


def _item(head: str, text: str) -> list[str]:
    return [".TP", head, _plain(text) or "\\&"]


def _plain(text: str) -> str:
    """A text that troff prints as it is, on any machine."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def run(options: Namespace, console: Console) -> int:
    """Print the page in the language of `man`."""
    del options
    console.write(manual(all_commands(), __version__, ABOUT))
    return FINE
