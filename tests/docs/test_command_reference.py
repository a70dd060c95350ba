"""docs/commands.md lists every command; `./dev docs` writes it from their parsers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Final

from xg.cli.command_list import commands
from xg.cli.commands.man import MEANINGS
from xg.cli.shell_scripts import CommandWords, GivenWord, Option, all_commands

PAGE: Final = Path(__file__).parents[2] / "docs" / "commands.md"
HEAD: Final = """\
# Commands

This page lists every command with its options. `xg COMMAND --help` prints one command, and `xg man`
prints all. Every command also takes `--help` and `--color {auto,always,never}`.

Options that several commands share come first.

<!-- ./dev docs writes this page from the parsers of the commands. -->
"""
SHARED: Final = 2  # commands that take an option from which it is explained once
EVERYWHERE: Final = {"--help", "--color"}
COUNTS: Final = {"1": "{}", "+": "{}...", "?": "[{}]", "*": "[{}...]"}


def _shared(every: tuple[CommandWords, ...]) -> dict[str, str]:
    """The rows of words that several commands take, by spelling."""
    options = [o for each in every for o in each.options if EVERYWHERE.isdisjoint(o.spellings)]
    rows = [(o.spellings[0], _option(o)) for o in options]
    rows += [(o.value.name, _operand(o)) for each in every for o in each.operands]
    counts = Counter(rows)
    return {name: row for (name, row), n in sorted(counts.items()) if n >= SHARED}


def _command(command: CommandWords, shared: Container[str]) -> Iterator[str]:
    options = [each for each in command.options if EVERYWHERE.isdisjoint(each.spellings)]
    words = ("xg", command.name, *(COUNTS[o.count].format(o.value.name) for o in command.operands))
    yield f"\n## xg {command.name}\n"
    yield f"{command.about[0].upper()}{command.about[1:]}.\n"
    usage = f"{' '.join(words)}{' [options]' if options else ''}"
    yield f"```sh\n# {usage}\n{command.example}\n```\n"
    own = [each for each in options if _option(each) not in shared]
    rows = [row for row in map(_operand, command.operands) if row not in shared]
    rows += map(_option, own)
    yield from rows
    if others := [f"`{o.spellings[0]}`" for o in options if o not in own]:
        yield f"\nAlso: {', '.join(others)}."


def _operand(operand: GivenWord) -> str:
    return f"- `{operand.value.name}`: {_text(operand.about)}"


def _option(option: Option) -> str:
    value = option.value
    name = "" if value is None else f" {value.name}"
    if value is not None and value.kind == "one":
        name = f" {{{','.join(value.words)}}}"
    names = ", ".join(f"`{each}{name}`" for each in option.spellings)
    return f"- {names}: {_text(option.about)}"


def _text(text: str) -> str:
    return re.sub(r"(--[\w-]+)", r"`\1`", re.sub(r"([*<])", r"\\\1", text))


def _page() -> str:
    every = all_commands()
    shared = _shared(every).values()
    lines = [HEAD, "## Shared by commands\n", *shared]
    for command in every:
        lines += _command(command, shared)
    lines += ["\n## Exit codes\n", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(lines) + "\n"


def test_the_page_is_up_to_date(golden: Callable[[Path, str], None]) -> None:
    golden(PAGE, _page())


def test_every_command_is_on_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in commands() if f"\n## xg {name}\n" not in text] == []
