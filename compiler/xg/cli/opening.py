"""Open the file that a command names."""

from __future__ import annotations

import sys
from pathlib import Path

from xg.frontend.project import Project, parse_project, read_project


def open_project(file: str, stdin_filename: str | None = None) -> Project:
    """Read a file, or standard input for ``-``, and all that it uses."""
    if file == "-":
        data = sys.stdin.buffer.read()
        if stdin_filename is None:
            return parse_project(data)
        return parse_project(data, stdin_filename, place=Path(stdin_filename).resolve())
    return read_project(file)
