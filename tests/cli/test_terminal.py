"""Results and messages on terminals of several widths, with color and without."""

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from cli.conftest import TINY, WRONG, Said, Xg

from xg.cli import main
from xg.cli.command_list import commands
from xg.diagnostics.terminal import width

WIDTHS = (60, 72, 80, 97, 120, 200)
STYLE = re.compile("\x1b\\[[0-9;]*m")
LONG = WRONG.replace(": Y\n", f": Y {' ' * 150} # {'a long remark ' * 9}\n").replace(
    "X -> •<=W", f"{' ' * 70} X -> •<=W"
)
COMMANDS = (
    ("--help",),
    ("ops",),
    ("ops", "buckets"),
    ("doctor",),
    ("check", "tiny.xg", "wrong.xg", "long.xg"),
    ("verify", "tiny.xg"),
    ("cost", "tiny.xg"),
    ("cost", "tiny.xg", "--full"),
    ("show", "tiny.xg", "--as", "cost"),
    ("build", "tiny.xg", "--block", "No" * 30),
    ("plan", "mlp", "--ranks", "4", "--memory", "1GB"),
    ("diff", "mlp", "--plan", "TP"),
    ("diff", "mlp", "tiny.xg", "--block", "MLP"),
    *((command, "--help") for command in commands()),
)


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, columns: int, *words: str) -> Said:
    """The results and messages of a command on a terminal of so many columns."""
    out, err = (Terminal(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        patched.setattr(sys, "stderr", err)
        patched.setenv("COLUMNS", str(columns))
        code = main(words)
        out.flush()
        err.flush()
    return Said(code, *(each.buffer.getvalue().decode() for each in (out, err)))  # pyright: ignore


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_line_is_longer_than_the_terminal_and_no_word_is_lost(
    words: tuple[str, ...], xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "long.xg").write_text(LONG, encoding="utf-8")
    plain = printed(monkeypatch, 1_000, *words)
    assert "\x1b" not in xg(*words).out  # no terminal
    for columns in WIDTHS:
        said = printed(monkeypatch, columns, *words)
        assert said.code == plain.code
        shown = STYLE.sub("", said.out + said.err).replace("\x1b[K", "")
        for line in shown.splitlines():
            assert width(line) <= columns or _is_one_word(line), (columns, line)
        if "--help" not in words:  # argparse abbreviates nothing, and moves all
            assert STYLE.sub("", said.out).split() == STYLE.sub("", plain.out).split()


def test_meanings_of_operators_are_read_down_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = printed(monkeypatch, 80, "ops").out
    assert "x -> ReLU : y\n    replaces negative numbers with 0\n" in said
    assert max(map(len, re.findall(" +", said))) < 40


def _is_one_word(line: str) -> bool:
    """Whether it could not be broken: a path or an example, which is copied."""
    return " " not in line.strip() or line.startswith(("  xg ", "  python "))


def test_a_message_keeps_its_words_and_its_marks_on_a_narrow_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "long.xg").write_text(LONG, encoding="utf-8")
    wide = STYLE.sub("", printed(monkeypatch, 1_000, "check", "long.xg").err)
    for columns in WIDTHS:
        narrow = STYLE.sub("", printed(monkeypatch, columns, "check", "long.xg").err)
        for word in re.findall(r"\w+", wide.partition("\n")[0]):
            assert word in narrow
        lines = narrow.splitlines()
        mark = next(place for place, line in enumerate(lines) if "^" in line)
        source = next(line for line in reversed(lines[:mark]) if "W" in line)
        assert source[lines[mark].index("^")] == "•"


def test_cells_that_are_broken_continue_below_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, 72, "ops", "softmax").out.splitlines()
    start = next(line for line in lines if "meaning" in line)
    column = start.index("softmax")
    after = lines[lines.index(start) + 1]
    assert after[:column].isspace()
    assert not after[column].isspace()


@pytest.mark.parametrize(
    ("variables", "option", "colored"),
    [
        ({}, "auto", True),
        ({"NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": ""}, "auto", True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", False),
        ({"TERM": "dumb"}, "auto", False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, "auto", True),
        ({"NO_COLOR": "1"}, "always", True),
        ({}, "never", False),
    ],
)
def test_verdicts_are_green_and_red_where_color_is_wanted(
    variables: dict[str, str],
    option: str,
    colored: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del folder
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said = printed(monkeypatch, 80, "check", "tiny.xg", "wrong.xg", "--color", option)
    good, bad = said.out.splitlines()
    assert good == ("tiny.xg: \x1b[32mok\x1b[0m" if colored else "tiny.xg: ok")
    assert bad == ("wrong.xg: \x1b[1;31m1 error\x1b[0m" if colored else "wrong.xg: 1 error")
    assert ("\x1b" in said.err) is colored


def test_color_is_forced_without_a_terminal(xg: Xg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert xg("check", "tiny.xg").out == "tiny.xg: \x1b[32mok\x1b[0m\n"
    assert "\x1b" not in xg("check", "tiny.xg", "--json").out


@pytest.mark.parametrize(
    ("line", "painted"),
    [
        ("X  [2]  2  3.7e-09  1e-06  ok", "ok"),
        ("X  [2]  2  3.7e-01  1e-06  failed: no number", "!failed"),
        ("8 of 8 gradients agree, seed 0", "8 of 8 gradients agree"),
        ("7 of 8 gradients agree, seed 0", ""),
        ("1 block, 8 gradients: all proven", "all proven"),
        ("1 block, 8 gradients: 1 block FAILED", "!FAILED"),
        ("NumPy code and interpreter agree: 1 output", "agree"),
        ("NumPy code and interpreter DIFFER: first in Y", "!DIFFER"),
        ("no block mentions ranks", ""),
        ("mlp  12  7  1.0e-09  proven", "proven"),
        ("missing  torch  runs torch code", "!missing"),
        ("ok is an edge of this block", ""),
    ],
)
def test_every_verdict_has_its_color(
    line: str, painted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from xg.cli.console import Console  # the streams of this test

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Console().judge(line)
    bad, word = painted.startswith("!"), painted.removeprefix("!")
    colored = f"\x1b[{'1;31' if bad else '32'}m{word}\x1b[0m"
    assert capsys.readouterr().out == (line.replace(word, colored) if word else line) + "\n"


@pytest.mark.parametrize("words", [("verify",), ("build", "--only", "svg", "-o", "out")])
def test_progress_is_one_line_that_the_next_output_erases(
    words: tuple[str, ...], xg: Xg, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERM", raising=False)
    command, *options = words
    long = f"{'n' * 90}.xg"
    (folder / long).write_text(TINY.replace("Net", "Other"), encoding="utf-8")
    assert xg(command, "tiny.xg", long, *options).err == ""  # no terminal
    for columns in WIDTHS:
        said = printed(monkeypatch, columns, command, "tiny.xg", long, *options)
        assert said.code == 0
        *drawn, last = said.err.split("\x1b[K")
        lines = [each.removeprefix("\r") for each in drawn if each != "\r"]
        assert len(lines) >= 2
        assert lines[0].partition(" ")[0] == "1/2"
        assert "tiny.xg" in lines[0]
        assert all(each.startswith("\r") and "\n" not in each for each in drawn)
        assert all(width(each) < columns for each in lines)
        assert (drawn[-1], last) == ("\r", "")
    monkeypatch.setenv("TERM", "dumb")
    assert printed(monkeypatch, 80, command, "tiny.xg", long, *options).err == ""


def test_an_error_erases_the_progress(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del folder
    monkeypatch.delenv("TERM", raising=False)
    said = STYLE.sub("", printed(monkeypatch, 80, "build", "wrong.xg", "--only", "dot").err)
    assert said.startswith("\r1/1 building wrong.xg\x1b[K\r\x1b[Kerror[XG")


def test_a_real_terminal_is_asked_how_wide_it_is(folder: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 64, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-P", "-m", "xg", "ops", "scale_mask"]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=theirs, close_fds=True)
    os.close(theirs)
    text = b""
    while True:
        try:
            text += os.read(ours, 4096)
        except OSError:  # as Linux ends it
            break
    os.close(ours)
    assert process.wait() == 0
    lines = text.decode().splitlines()
    assert len(lines) > 8
    assert max(map(width, lines)) <= 64
