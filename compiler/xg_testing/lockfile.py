"""Read and write `xg.lock`: one TOML file beside the diagrams, one section for each block.

Sections are sorted, and each fact has a line of its own, so that two branches merge.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from xg.diagnostics.lazy_dataclass import dataclass
from xg_runtime import files
from xg_runtime.errors import FileError
from xg_testing.record import BlockLock, parse_edge

NAME: Final = "xg.lock"
FORMAT: Final = 1
TOLERANCE: Final = 1e-8  # relative to the norm; numbers are kept to ten digits

# One line for each time that a release changes emitted code or figures without changing what any
# of them computes or shows. A lock that is older reports the lines that it has not seen, once.
EMISSIONS: Final = ("0.3.0: first release with locks",)


@dataclass(frozen=True, slots=True)
class Lock:
    """The blocks of one folder, by file and name; `emission` counts the lines of EMISSIONS."""

    blocks: Mapping[tuple[str, str], BlockLock]
    tolerance: float = TOLERANCE
    emission: int = len(EMISSIONS)

    def find(self, block: BlockLock, present: Iterable[str]) -> BlockLock | None:
        """Return the record of a block, also if its file was renamed: `present` are the files."""
        exact = self.blocks.get((block.file, block.block))
        if exact is not None:
            return exact
        gone = [
            each
            for (file, name), each in self.blocks.items()
            if name == block.block and file not in set(present)
        ]
        return gone[0] if len(gone) == 1 else None


def read_lock(path: Path) -> Lock | None:
    """Read a lock, or return None if there is no such file; raises FileError if it is damaged."""
    if not path.exists():
        return None
    try:
        data = tomllib.loads(files.read(path).decode())
        if data["format"] != FORMAT:
            raise FileError(
                f"{path} has format {data['format']}, and this xg reads {FORMAT}: use the xg that "
                "wrote it, or delete it and write it again: xg lock"
            )
        blocks = [_block(each) for each in data.get("block", [])]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"{path} is damaged ({error}): restore it, or delete it and write it again: xg lock"
        ) from None
    by_key = {(each.file, each.block): each for each in blocks}
    return Lock(by_key, data["tolerance"], data["emission"])


def _block(data: Mapping[str, Any]) -> BlockLock:
    lines = data["program"].strip().splitlines()
    made = [line for line in lines if not line.startswith("return ")]
    outputs = tuple(lines[-1].removeprefix("return ").split(", ")) if len(made) < len(lines) else ()
    numbers = dict(data.get("numbers", {}))
    sizes = numbers.pop("at", {})
    return BlockLock(
        data["name"],
        data["file"],
        tuple(map(parse_edge, made)),
        outputs,
        sizes,
        {name: (float(pair[0]), float(pair[1])) for name, pair in numbers.items()},
        {name: tuple(each) for name, each in data.get("plans", {}).items()},
        data.get("code", {}),
    )


def lock_text(lock: Lock) -> str:
    """Write a lock as text: the same blocks give the same bytes."""
    sections = [_section(lock.blocks[key]) for key in sorted(lock.blocks)]
    head = (
        "# What these diagrams mean. `xg lock` accepts changes, `xg lock --check` reports them.\n"
        f"format = {FORMAT}\nemission = {lock.emission}\ntolerance = {lock.tolerance:g}\n"
    )
    return "\n".join([head, *("\n".join(section) + "\n" for section in sections)])


def write_lock(path: Path, lock: Lock) -> bool:
    """Write a lock if it differs from the file; tell whether it did."""
    data = lock_text(lock).encode()
    if path.exists() and files.read(path) == data:
        return False
    files.write(path, data)
    return True


def _section(block: BlockLock) -> Iterator[str]:
    yield "[[block]]"
    yield f"name = {json.dumps(block.block, ensure_ascii=False)}"
    yield f"file = {json.dumps(block.file, ensure_ascii=False)}"
    yield "program = '''"
    yield from map(str, block.edges)
    yield f"return {', '.join(block.outputs)}"
    yield "'''"
    if block.plans:
        yield "[block.plans]"
        for name, lines in sorted(block.plans.items()):
            yield f"{_key(name)} = ["
            yield from (f"    {json.dumps(line, ensure_ascii=False)}," for line in lines)
            yield "]"
    yield "[block.numbers]"
    sizes = ", ".join(f"{_key(name)} = {size}" for name, size in sorted(block.sizes.items()))
    yield f"at = {{ {sizes} }}" if sizes else "at = {}"
    yield from (f"{_key(name)} = [{a!r}, {b!r}]" for name, (a, b) in block.numbers.items())
    yield "[block.code]"
    yield from (f"{_key(kind)} = {json.dumps(each)}" for kind, each in block.code.items())


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)
