"""Completion in the shells themselves, with the Tab key; the manual page in troff."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest
from cli.conftest import Xg

from xg.cli.command_list import commands

STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
READY = "READY-TO-TYPE"
# The words of the command line after Tab are printed by a function that has the name of xg.
SHOWN = 'xg() {{ printf "<%s>" "$@"; echo END; }}; {first}source ./completion; echo {ready}\n'
FIRST = {"bash": "", "zsh": "autoload -Uz compinit; compinit -u -D; "}
# Becomes the shell, at the terminal that is its standard input.
AT_TERMINAL = (
    "import fcntl, os, sys, termios; "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
JOINED = {"bash": "><", "zsh": "="}
CASES = [
    ("xg veri\t\r", "<verify>"),
    ("xg verify --every\t\r", "<verify><--every-choice>"),
    ("xg build --pass back\t\r", "<build><--pass><backward>"),
    ("xg verify --against fd,docu\t\r", "<verify><--against><fd,document>"),
    ("xg check tin\t\r", "<check><tiny.xg>"),
    ("xg check transf\t\r", "<check><transformer>"),
    ("xg fmt --check tin\t\r", "<fmt><--check><tiny.xg>"),
    ("xg check tiny.xg wro\t\r", "<check><tiny.xg><wrong.xg>"),
    ("xg build --theme=li\t\r", "<build><--theme=light>"),
]


class Terminal:
    """A shell at a terminal."""

    def __init__(self, words: list[str], folder: Path) -> None:
        environment = {**os.environ, "TERM": "dumb", "PS1": "", "HOME": str(folder)}
        self.end, its_end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *words],
            stdin=its_end, stdout=its_end, stderr=its_end,
            start_new_session=True, cwd=folder, env=environment,
        )  # fmt: skip
        os.close(its_end)

    def type(self, text: str, until: str) -> str:
        """Type a text; all that is printed until another text."""
        os.write(self.end, text.encode())
        printed, stop = "", monotonic() + 20
        while until not in printed and monotonic() < stop:
            if select.select([self.end], [], [], 0.2)[0]:
                printed += os.read(self.end, 4096).decode("utf-8", "replace")
        return printed

    def close(self) -> None:
        """End the shell."""
        os.close(self.end)
        self.process.wait()


@pytest.mark.parametrize("shell", STARTS)
def test_the_tab_key_completes(xg: Xg, folder: Path, shell: str) -> None:
    (folder / "completion").write_text(xg("completion", shell).out, encoding="utf-8")
    terminal = Terminal(STARTS[shell], folder)
    try:
        start = SHOWN.format(first=FIRST[shell], ready=f"{READY[:5]}''{READY[5:]}")
        assert READY in terminal.type(start, READY)
        for typed, expected in CASES:
            assert expected in terminal.type(typed, "END\r\n"), typed
        for name in commands():
            typed = terminal.type(f"xg {name} --colo\tnever\r", "END\r\n")
            assert f"<{name}><--color{JOINED[shell]}never>" in typed
    finally:
        terminal.close()


def test_fish_offers(xg: Xg, folder: Path) -> None:
    (folder / "completion").write_text(xg("completion", "fish").out, encoding="utf-8")
    asked = [typed.partition("\t")[0] for typed, _ in CASES]
    questions = "; echo ----; ".join(f"complete -C'{one}'" for one in asked)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./completion; {questions}"],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    for (_, expected), offered in zip(CASES, done.stdout.split("----\n"), strict=True):
        last = expected.split("<")[-1].rstrip(">")
        assert last in [line.partition("\t")[0] for line in offered.splitlines()]


def test_troff_takes_the_page_without_a_warning(xg: Xg) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"], input=xg("man").out, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "verify" in done.stdout
