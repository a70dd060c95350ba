"""Help, versions, wrong usage, and what happens when things go wrong."""

import json
from pathlib import Path

import pytest
from cli.conftest import Xg

import xg as package
from xg.cli.arguments import length
from xg.cli.command_list import commands
from xg.cli.commands.check import EXAMPLE
from xg.cli.dispatch import command_of


def test_help_lists_every_command(xg: Xg) -> None:
    said = xg("--help")
    assert said.code == 0
    assert all(f"\n  {name} " in said.out for name in commands())
    assert xg().code == 2


def test_widths_are_in_points_whatever_their_unit() -> None:
    for text in ("1in", "2.54cm", "25.4mm", "72pt"):
        assert length(text) == pytest.approx(72)


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_with_an_example(xg: Xg, name: str) -> None:
    said = xg(name, "--help")
    assert said.code == 0
    example = command_of(name).EXAMPLE.replace("\n", "\n  ")
    assert f"example:\n  {example}" in said.out
    assert "--color {auto,always,never}" in said.out


def test_version(xg: Xg) -> None:
    assert xg("--version").out == f"xg {package.__version__}\n"


def test_an_unknown_command_is_wrong_usage(xg: Xg) -> None:
    said = xg("biuld")
    assert said.code == 2
    assert "did you mean build?" in said.err


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "tiny.xg", "--nothing"],
        ["check", "tiny.xg", "--set", "D"],
        ["build", "tiny.xg", "--only", "tikz"],
        ["build", "tiny.xg", "--only", "gif"],
        ["show", "tiny.xg", "--as", "tikz"],
        ["verify", "tiny.xg", "--against", "autograd"],
        ["run", "tiny.xg"],
        ["train", "tiny.xg", "--steps", "many"],
        ["ops", "nothing"],
    ],
)
def test_wrong_usage_ends_with_2(xg: Xg, words: list[str]) -> None:
    said = xg(*words)
    assert said.code == 2
    assert said.err


def test_wrong_usage_is_two_lines_with_a_help(xg: Xg) -> None:
    said = xg("build", "tiny.xg", "--themee", "dark")
    assert said.err == (
        "xg build: error: unrecognized arguments: --themee dark\n  = help: did you mean --theme?\n"
    )
    said = xg("check")
    assert said.err.splitlines() == [
        "xg check: error: the following arguments are required: FILE",
        "  = help: xg check --help lists what it takes",
        f"  = help: an example is {EXAMPLE}",
    ]
    assert "\x1b" not in xg("check", "tiny.xg", "--\x1b[31m").err


@pytest.mark.parametrize("seed", ["-1", "1.5", "9999999999"])
def test_a_seed_is_a_whole_number(xg: Xg, seed: str) -> None:
    said = xg("verify", "tiny.xg", "--seed", seed)
    assert said.code == 2
    assert "argument --seed" in said.err


def test_options_may_stand_between_files(xg: Xg) -> None:
    said = xg("check", "tiny.xg", "--color", "never", "wrong.xg")
    assert said.code == 1
    assert "tiny.xg: ok" in said.out
    assert "wrong.xg:4:10" in said.err


# Commands that take no file, or more than one.
WITHOUT_FILE = (
    *("ops", "doctor", "demo", "run", "weights", "import", "export", "lsp", "plan"),
    *("completion", "man", "new"),
)


@pytest.mark.parametrize("name", [n for n in commands() if n not in WITHOUT_FILE])
def test_a_missing_file_ends_with_5(xg: Xg, name: str) -> None:
    said = xg(name, "nothing.xg")
    assert said.code == 5
    assert "cannot read nothing.xg" in said.err


@pytest.mark.parametrize("name", ["check", "build", "show", "verify", "cost", "train"])
def test_a_wrong_file_ends_with_1(xg: Xg, name: str) -> None:
    said = xg(name, "wrong.xg")
    assert said.code == 1
    assert "error[XG0301]: matmul contracts D with E" in said.err
    assert "wrong.xg:4:10" in said.err


@pytest.mark.parametrize("name", ["check", "verify", "cost"])
def test_mistakes_are_data_with_json(xg: Xg, name: str) -> None:
    said = xg(name, "wrong.xg", "--json")
    assert said.code == 1
    (mistake,) = json.loads(said.out)["diagnostics"]
    assert (mistake["file"], mistake["line"], mistake["column"]) == ("wrong.xg", 4, 10)
    assert mistake["code"].startswith("XG03")
    assert "error[XG" in said.err


@pytest.mark.parametrize("name", ["explain", "generate", "weights"])
def test_commands_for_one_device_take_no_plan(xg: Xg, name: str) -> None:
    said = xg(name, "tiny.xg", "--plan", "TP")
    assert said.code == 2
    assert "--plan NAME" not in xg(name, "--help").out


def test_a_bug_is_told_without_a_traceback(xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **_also: object) -> None:
        raise KeyError("\x1b[31mred")

    monkeypatch.setattr("xg.cli.costs.lines", broken)
    said = xg("cost", "tiny.xg")
    assert said.code == 3
    assert "internal error: KeyError" in said.err
    assert "report" in said.err
    assert "\x1b" not in said.err


def test_ctrl_c_ends_quietly(xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **_also: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("xg.cli.costs.lines", interrupted)
    assert xg("cost", "tiny.xg").code == 130


def test_color_is_only_for_those_who_want_it(xg: Xg) -> None:
    assert "\x1b[1;31merror" in xg("check", "wrong.xg", "--color", "always").err
    assert "\x1b" not in xg("check", "wrong.xg", "--color", "auto").err  # no terminal


def test_standard_input_is_a_file(xg: Xg, folder: Path) -> None:
    text = (folder / "tiny.xg").read_bytes()
    assert xg("check", "-", stdin=text).out == "-: ok\n"
    said = xg("check", "-", stdin=(folder / "wrong.xg").read_bytes())
    assert said.code == 1
    assert "<stdin>:4:10" in said.err
