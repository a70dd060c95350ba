"""The scripts that complete words, and the manual page: all that the parsers declare is in them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from cli.conftest import Xg

from xg.cli.command_list import commands
from xg.cli.dispatch import command_of, parser_of
from xg.cli.shell_scripts import all_commands, declared

SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_spelling_and_choice_of_every_parser_is_completed(xg: Xg, shell: str) -> None:
    script = xg("completion", shell).out
    for name in commands():
        for action in declared(parser_of(name, command_of(name))):
            for spelling in action.option_strings:
                written = f"{'-l' if spelling[1] == '-' else '-s'} {spelling.lstrip('-')}"
                assert (written if shell == "fish" else spelling) in script
            if action.choices is not None:
                assert " ".join(map(str, action.choices)) in script


def test_the_page_has_every_option(xg: Xg) -> None:
    page = xg("man").out.replace("\\-", "-")
    for command in all_commands():
        part = page.partition(f'.SS "xg {command.name}')[2].partition(".SS ")[0]
        assert all(f"\\fB{each}\\fR" in part for o in command.options for each in o.spellings)
        assert command.example in part
    assert page.isascii()


def test_an_unknown_shell_is_wrong_usage(xg: Xg) -> None:
    said = xg("completion", "tcsh")
    assert said.code == 2
    assert "invalid choice: 'tcsh'" in said.err


def completed_by_bash(folder: Path, script: str, *words: str) -> list[str]:
    """The words that bash offers for the last of these."""
    (folder / "completion").write_text(script, encoding="utf-8")
    call = (
        'source ./completion; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _xg; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", call, "bash", "xg", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ver"], ["verify"]),
        (["verify", "--ev"], ["--every-choice"]),
        (["verify", "--against", "fd,sin"], ["fd,single"]),
        (["build", "--pass", "b"], ["backward"]),
        (["build", "--theme", "=", "da"], ["dark"]),
        (["build", "--theme", "="], ["auto", "light", "dark", "print"]),
        (["check", "ti"], ["tiny.xg"]),
        (["check", "gpt"], ["gpt2"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["build", "-o", "in"], ["inner"]),
        (["check", "--block", "N"], []),
        (["check", "inner/"], ["inner/deep.xg"]),
    ],
    ids=" ".join,
)
def test_bash_offers(xg: Xg, folder: Path, words: list[str], offered: list[str]) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "deep.xg").write_text("")
    (folder / "inner" / "other.txt").write_text("")
    assert completed_by_bash(folder, xg("completion", "bash").out, *words) == offered


def test_no_list_is_longer_than_the_parsers(xg: Xg) -> None:
    script = xg("completion", "bash").out
    known = {
        o for command in all_commands() for option in command.options for o in option.spellings
    }
    listed = set(re.findall(r"(?<=[ :\"|])--?[a-z][a-z-]*", script.partition("_xg_options()")[2]))
    assert listed == known
