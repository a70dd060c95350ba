"""Doctests of the files that have some: pytest would import and search every other one, too."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule  # pytest has no public name for it


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out the doctests of a file without an example."""
    found = yield
    if b">>>" in file_path.read_bytes():
        return found
    return [each for each in found if not isinstance(each, DoctestModule)]
