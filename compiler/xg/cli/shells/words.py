"""The words of the command line, read from the parsers of the commands."""

from __future__ import annotations

from argparse import SUPPRESS, Action, ArgumentParser
from pathlib import Path
from typing import Final, Literal

from xg.cli.arguments import Diagram, FileOrName, OneOrMore, Shipped, XgFile
from xg.cli.command_list import commands
from xg.cli.dispatch import command_of, parser_of
from xg.diagnostics.lazy_dataclass import dataclass

Kind = Literal["nothing", "one", "list", "diagram", "shipped", "xg", "file", "folder"]
FOLDERS = ("DIR", "FOLDER")
KINDS: Final[dict[object, Kind]] = {
    Diagram: "diagram",
    Shipped: "shipped",
    XgFile: "xg",
    FileOrName: "file",
    Path: "file",
}


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A word given to an option, or by itself: its name, its kind, the words to choose from."""

    name: str
    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its spellings, what it is for, its value if it has one."""

    spellings: tuple[str, ...]
    about: str
    value: GivenValue | None
    repeated: bool  # it may be given several times


@dataclass(frozen=True, slots=True)
class GivenWord:
    """A word without a dash: its value, what it is for, how many there may be."""

    value: GivenValue
    about: str
    count: Literal["1", "?", "*", "+"]


@dataclass(frozen=True, slots=True)
class CommandWords:
    """A command: what it does, its options and operands, a line that works."""

    name: str
    about: str
    operands: tuple[GivenWord, ...]
    options: tuple[Option, ...]
    example: str


def all_commands() -> tuple[CommandWords, ...]:
    """Every command, as its parser declares it."""
    return tuple(_command(name, about) for name, about in commands().items())


def _command(name: str, about: str) -> CommandWords:
    command = command_of(name)
    actions = declared(parser_of(name, command))
    return CommandWords(
        name,
        about,
        tuple(_operand(one) for one in actions if not one.option_strings),
        tuple(_option(one) for one in actions if one.option_strings),
        command.EXAMPLE,
    )


def declared(parser: ArgumentParser) -> list[Action]:
    """The arguments of a parser; argparse has no public name for them."""
    return [each for each in parser._actions if each.help is not SUPPRESS]  # pyright: ignore[reportPrivateUsage]


def _operand(action: Action) -> GivenWord:
    count = action.nargs if action.nargs in ("?", "*", "+") else "1"
    return GivenWord(_value(action), action.help or "", count)


def _option(action: Action) -> Option:
    value = None if action.nargs == 0 else _value(action)
    repeated = type(action).__name__ == "_AppendAction"
    return Option(tuple(action.option_strings), action.help or "", value, repeated)


def _value(action: Action) -> GivenValue:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    name = metavar or action.dest.upper()
    if action.choices is not None:
        return GivenValue(metavar or "WORD", "one", tuple(map(str, action.choices)))
    if isinstance(action.type, OneOrMore):
        return GivenValue(name, "list", tuple(action.type.known))
    if action.type is Path and name in FOLDERS:
        return GivenValue(name, "folder")
    return GivenValue(name, KINDS.get(action.type, "nothing"))
