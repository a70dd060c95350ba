"""The example of every `xg COMMAND --help` works in an empty folder, as where xg is installed."""

import shlex
from pathlib import Path
from typing import Final

import pytest
from cli.conftest import Xg

from xg.cli.command_list import commands
from xg.cli.dispatch import command_of, parse

# Fewer steps, and fewer tokens: the same commands in a moment.
QUICK: Final = {"300": "2", "200": "4"}
# These wait for a browser or an editor, and tests of their own start them.
WAITING: Final = {"serve", "lsp"}
# Commands of minutes have tests of their own with less to do.
LESS: Final = {"demo": ["mlp", "--steps", "4"]}


def lines_of(name: str) -> list[list[str]]:
    return [shlex.split(line) for line in command_of(name).EXAMPLE.splitlines()]


@pytest.mark.parametrize("name", commands())
def test_the_example_of_its_help_works(
    name: str, xg: Xg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    *_, last = lines_of(name)
    assert last[:2] == ["xg", name]
    for program, *words in lines_of(name):
        if program == "python":
            assert words[0] == "-c"
            exec(words[1], {})
        elif words[0] in WAITING:
            assert parse(words[0], words[1:])
        else:
            said = xg(*(QUICK.get(word, word) for word in words), *LESS.get(words[0], ()))
            assert said.code == 0, f"{words}\n{said.err}"


def test_no_example_names_a_folder_of_a_checkout() -> None:
    assert [name for name in commands() if "diagrams/" in command_of(name).EXAMPLE] == []
