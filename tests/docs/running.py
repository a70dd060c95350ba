"""Documents run as their readers would: in a folder that looks like a fresh checkout."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from docs.markdown import Block, blocks, commands, matches, pieces
from tier import THOROUGH

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ("compiler", "runtime", "grammar")


def checkout(folder: Path, python: Sequence[str]) -> None:
    """Fill a folder: `./xg`, its environment with these words for `python`, the diagrams."""
    interpreter = folder / ".venv" / "bin" / "python"
    launch(interpreter, python)
    (folder / "xg").write_text(f'#!/bin/sh\nexec {interpreter} -P -m xg "$@"\n', encoding="utf-8")
    (folder / "xg").chmod(0o755)
    for copied in ("diagrams", "examples"):
        shutil.copytree(
            ROOT / copied, folder / copied, ignore=shutil.ignore_patterns("__pycache__")
        )


def launch(program: Path, python: Sequence[str]) -> None:
    """Write a program that is `python` to those who start it, and to what they start."""
    program.parent.mkdir(parents=True, exist_ok=True)
    itself = f"WARM_PYTHON={shlex.quote(str(program))}"
    program.write_text(f'#!/bin/sh\n{itself} exec {shlex.join(python)} "$@"\n', encoding="utf-8")
    program.chmod(0o755)


def environment() -> Mapping[str, str]:
    """The variables of the commands."""
    paths = os.pathsep.join(str(ROOT / name) for name in SOURCE_ROOTS)
    fixed = {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    fixed["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # it warns where no names are resolved
    return {**os.environ, **fixed, "PYTHONPATH": paths}


def follow(
    name: str, folder: Path, *, update: bool, more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Do all that a document says, and compare; or write what came out into the document.

    `more` are words behind commands: a training that is shorter than what readers start.
    """
    document = (ROOT / name).read_text(encoding="utf-8")
    variables = environment()
    wrong: dict[Block, str] = {}
    for block in blocks(document):
        if block.how == "file":
            (folder / block.what).write_text(block.text, encoding="utf-8")
        elif block.how == "part of":
            printed = _run(block.what, folder, variables)
            missing = [piece for piece in pieces(block.text) if piece not in printed]
            assert missing == [], printed
        elif block.language == "console" and (THOROUGH or update or block.how != "thorough"):
            shown = [
                (c, _run(f"{c.text} {more.get(c.text, '')}", folder, variables))
                for c in commands(block.text)
            ]
            exact = block.how != "numbers vary"
            if not all(matches(c.output, output, numbers=exact) for c, output in shown):
                wrong[block] = "".join(f"$ {command.text}\n{output}" for command, output in shown)
    if update:
        for block, text in reversed(wrong.items()):
            end = block.start + len(block.text)
            document = document[: block.start] + text + document[end:]
        (ROOT / name).write_text(document, encoding="utf-8", newline="\n")
    found = [text for block, text in wrong.items() if block.text != text and not update]
    assert not found, "\n".join(found)  # pytest says nothing of itself outside of test files


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The output of a command, as a terminal shows it."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    return done.stdout
