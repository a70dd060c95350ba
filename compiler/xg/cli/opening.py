"""Open the file that a command names."""

from __future__ import annotations

import sys

from xg.frontend.project import Project, parse_project, read_project


def open_project(file: str) -> Project:
    """Read a file, or standard input for ``-``, and all that it uses."""
    if file == "-":
        return parse_project(sys.stdin.buffer.read())
    return read_project(file)
