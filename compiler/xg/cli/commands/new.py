"""`xg new`: a project that works, to be changed."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xg.cli.console import Console
from xg.cli.exits import FILE_FAILED, FINE
from xg.diagnostics.terminal import printable
from xg.packages import offers, service

EXAMPLE = "xg new tiny_gpt"


def add_arguments(parser: ArgumentParser) -> None:
    """Where it goes."""
    parser.add_argument(
        "folder",
        metavar="NAME",
        type=project_folder,
        help="the project: a folder here, or a path; existing files are not overwritten",
    )


def project_folder(text: str) -> Path:
    """A path that ends in a name that files, figures and modules may have."""
    folder = Path(text)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", folder.name):
        raise ArgumentTypeError(
            f"{folder.name!r} is not a name for a project: use letters, digits and _, and begin "
            "with a letter"
        )
    return folder


TEMPLATES: Final = Path(__file__).parents[1] / "new_project"


def run(options: Namespace, console: Console) -> int:
    """Write the files, all or none, and say how to go on."""
    from xg_runtime import files

    folder: Path = options.folder
    shown = printable(str(folder))
    made = dict(_files(folder))
    for path in made:
        if os.path.lexists(path):
            console.note(f"xg: {printable(str(path))} is already there: nothing is written")
            return FILE_FAILED
    files.write_files(made)
    written = [path.relative_to(folder).as_posix() for path in made]
    if offers("lock"):
        diagram = folder / f"{folder.name}.xg"
        written += [path.name for path, *_ in service("lock")([diagram])]
    console.say(f"{shown}: {', '.join(written)}")
    console.say(f"next: cd {shown}, then xg serve {folder.name}.xg --open")
    console.say("README.md there has more commands")
    return FINE


def _files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The templates, with the name of the project wherever they say NAME."""
    for template in sorted(TEMPLATES.rglob("*.txt")):
        name = template.relative_to(TEMPLATES).with_suffix("").as_posix()
        name = name.replace("dot-", ".").replace("NAME", folder.name)
        text = template.read_text(encoding="utf-8").replace("NAME", folder.name)
        yield folder / name, text.encode()
