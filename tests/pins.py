"""The releases of all packages that the tests are run and the site is made with.

A release elsewhere must not break what CI runs, so constraints.txt names one of each. To take
newer ones: install them in a .venv of the oldest Python that xg runs on, run `./dev test`, then
write constraints.txt with `.venv/bin/python tests/pins.py >constraints.txt`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
HEAD = """\
# What the tests are run and the site is made with, to the release; xg's users are not bound by it.
# One release of torch above all, because its numbers are compared with ours to the last digits.
# tests/pins.py writes this from what is installed.
"""
OWN_PINS = "torch"  # names the releases of what it brings, other ones for each kind of machine


def pins() -> dict[str, list[str]]:
    """The packages, as NAME==RELEASE, that xg needs, and those that each tool needs beside them."""
    found: dict[str, list[str]] = {}
    listed: set[str] = set()
    for asker, wanted in _askers():
        reached: dict[tuple[str, str], str] = {}
        for line in wanted:
            _reach(Requirement(line), reached)
        found[asker] = sorted(set(reached.values()) - listed)
        listed.update(found[asker])
    return found


def _askers() -> Iterator[tuple[str, list[str]]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    yield "xg", project["project"]["dependencies"]
    for tool in project["dependency-groups"]["dev"]:
        yield Requirement(tool).name, [tool]


def _reach(wanted: Requirement, reached: dict[tuple[str, str], str]) -> None:
    """Add a package, and all that it needs on this machine."""
    name = canonicalize_name(wanted.name)
    for extra in ("", *sorted(wanted.extras)):
        if (name, extra) in reached:
            continue
        try:
            found = distribution(name)
        except PackageNotFoundError:
            return
        reached[name, extra] = f"{name}=={Version(found.version).public}"
        if name == OWN_PINS:
            return
        for line in found.requires or ():
            needed = Requirement(line)
            if not needed.marker or needed.marker.evaluate({"extra": extra}):
                _reach(needed, reached)


def written() -> str:
    """The file, a section for each tool that needs more than those above it."""
    sections = ["\n".join([f"# {asker}", *some, ""]) for asker, some in pins().items() if some]
    return "\n".join([HEAD, *sections])


if __name__ == "__main__":
    print(written(), end="")  # noqa: T201
