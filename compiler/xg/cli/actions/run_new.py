"""`xg new`: a project that works, to be changed."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from xg.cli.console import Console
from xg.cli.exits import FILE_FAILED, FINE
from xg.diagnostics.terminal import printable
from xg_runtime import files

TEMPLATES: Final = Path(__file__).parents[1] / "new_project"


def run(options: Namespace, console: Console) -> int:
    """Write the files, all or none, and say how to go on."""
    folder: Path = options.folder
    shown = printable(str(folder))
    made = dict(_files(folder))
    for path in made:
        if os.path.lexists(path):
            console.note(f"xg: {printable(str(path))} is already there: nothing is written")
            return FILE_FAILED
    files.write_all(made)
    console.say(f"{shown}: {', '.join(path.name for path in made)}")
    console.say(f"next: cd {shown}, then xg serve {folder.name}.xg --open")
    console.say("README.md there has more commands")
    return FINE


def _files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The templates, with the name of the project wherever they say NAME."""
    for template in sorted(TEMPLATES.glob("*.txt")):
        name = template.stem.replace("dot-", ".").replace("NAME", folder.name)
        text = template.read_text(encoding="utf-8").replace("NAME", folder.name)
        yield folder / name, text.encode()
