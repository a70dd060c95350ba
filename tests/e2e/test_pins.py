"""constraints.txt binds every package that is installed to test with."""

import re
from itertools import chain
from pathlib import Path

from pins import pins, written

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


def names(lines: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==\S+$", lines, re.MULTILINE)


def test_every_package_has_one_release() -> None:
    """Which release is there is for pip to say; a package without one would be any."""
    bound = names(CONSTRAINTS.read_text(encoding="utf-8"))
    assert set(names(written())) <= set(bound)
    assert len(bound) == len(set(bound))


def test_what_tools_bring_along_is_bound_too() -> None:
    found = {asker: set(names("\n".join(some))) for asker, some in pins().items()}
    assert "numpy" in found["xg"]
    assert "docutils" in found["furo"]
    assert {"trio", "pysocks"} <= found["selenium"]  # the second by way of urllib3[socks]
    assert sum(map(len, found.values())) == len(set(chain(*found.values())))
