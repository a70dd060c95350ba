"""Which blocks each test runs, and how long it takes: recorded once, kept in ``build``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mutants import reach
from mutants.reach import Block
from mutants.rooms import ROOT

FOLDER = ROOT / "build" / "mutants"
BLOCKS, TESTS = FOLDER / "blocks.json", FOLDER / "tests.jsonl"
IMPORT = "import"  # the name under which the record keeps what runs when tests are collected
COLLECTED = 0.01  # seconds that pytest spends beside a test
Ran = np.ndarray[Any, np.dtype[np.uint8]]  # by the number of a block, whether it ran


@dataclass(frozen=True)
class Seen:
    """The blocks that one test ran, and its seconds; of no use if it failed or took too long."""

    name: str
    seconds: float
    ran: Ran
    useful: bool


class Record:
    """The blocks that every test ran, as far as tests were recorded."""

    def __init__(self, blocks: list[Block], tests: Iterable[Seen]) -> None:
        self.blocks = blocks
        self.tests = {each.name: each for each in tests if each.useful}
        imported = self.tests.pop(IMPORT, None)
        self.imported = np.zeros(len(blocks), np.uint8) if imported is None else imported.ran
        self.places: dict[str, list[int]] = {}  # by file
        for place, block in enumerate(blocks):
            self.places.setdefault(block.path, []).append(place)
        self.names = list(self.tests)
        every = [each.ran for each in self.tests.values()]
        self.ran = np.stack(every) if every else np.zeros((0, len(blocks)), np.uint8)

    def near(self, block: Block | None, path: str, users: Iterable[str] = ()) -> list[str]:
        """List the tests that run a block; without one, those that run anything of a file.

        Of a file whose functions no test runs, the values are used in the files that import it.
        """
        if block is not None:
            return self._running([p for p in self.places.get(path, ()) if self.blocks[p] == block])
        near = self._running(self.places.get(path, []))
        return near or self._running([p for user in users for p in self.places.get(user, ())])

    def at_import(self, block: Block) -> bool:
        """Tell whether a block runs when tests are collected: its effect is a value of a module."""
        return any(
            self.blocks[place] == block and self.imported[place]
            for place in self.places.get(block.path, ())
        )

    def _running(self, places: list[int]) -> list[str]:
        found = np.count_nonzero(self.ran[:, places], axis=1).tolist()
        return [name for name, count in zip(self.names, found, strict=True) if count]


def line(seen: Seen) -> str:
    """Write one test as the record keeps it."""
    ran = np.packbits(seen.ran).tobytes().hex() if seen.useful else ""
    return json.dumps([seen.name, round(seen.seconds, 3), ran]) + "\n"


def add(seen: Seen) -> None:
    """Append one test in a single write: several processes record at once."""
    file = os.open(TESTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line(seen).encode())
    os.close(file)


def begin() -> list[Block]:
    """Bring the record to the blocks that there are now, and return them.

    A function that only moved keeps what was recorded. Of one that changed, a test that ran any
    block is taken to run all of them. A function that is new is run by no test that is kept.
    """
    now = reach.table()
    old = _blocks()
    if old != now:
        kept = list(_tests(len(old)))
        places = list(matches(old, now))
        FOLDER.mkdir(parents=True, exist_ok=True)
        BLOCKS.write_text(json.dumps([[*block, now[block]] for block in now]), encoding="utf-8")
        moved = (Seen(each.name, each.seconds, _moved(each, places), each.useful) for each in kept)
        TESTS.write_text("".join(map(line, moved)), encoding="utf-8")
    return list(now)


def forget_changed() -> list[str]:
    """Forget the tests of files that changed since the record was made, and list these files."""
    made = TESTS.stat().st_mtime
    changed = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.stat().st_mtime > made
    ]
    if changed:
        kept = [row for row in _lines() if row[0].partition("::")[0] not in changed]
        TESTS.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return changed


def matches(old: Mapping[Block, str], now: Mapping[Block, str]) -> Iterator[list[int]]:
    """Find for each block of now the places of the old blocks that tell which tests run it."""
    same: dict[tuple[str, int], list[int]] = {}
    near: dict[tuple[str, str], list[int]] = {}
    named: dict[str, list[int]] = {}
    for place, (block, digest) in enumerate(old.items()):
        same.setdefault((digest, block.number), []).append(place)
        near.setdefault((block.path, block.function), []).append(place)
        named.setdefault(block.function, []).append(place)
    for block, digest in now.items():
        found = same.get((digest, block.number)) or near.get((block.path, block.function))
        yield found or named.get(block.function, [])


def _moved(seen: Seen, places: list[list[int]]) -> Ran:
    if not seen.useful:
        return np.zeros(len(places), np.uint8)
    padded = np.append(seen.ran, np.uint8(0))
    ran = padded[[each[0] if each else -1 for each in places]]
    for place, each in enumerate(places):
        if len(each) > 1:
            ran[place] = padded[each].max()
    return ran


def read() -> Record:
    """Read the record that was kept."""
    blocks = _blocks()
    return Record(list(blocks), _tests(len(blocks)))


def recorded() -> set[str]:
    """Name the tests that were recorded, also those of no use."""
    return {name for name, _, _ in _lines()}


def _blocks() -> dict[Block, str]:
    if not BLOCKS.exists():
        return {}
    rows = json.loads(BLOCKS.read_text(encoding="utf-8"))
    return {Block(*block): digest for *block, digest in rows}


def _tests(count: int) -> Iterator[Seen]:
    for name, seconds, ran in _lines():
        packed = np.frombuffer(bytes.fromhex(ran), np.uint8)
        yield Seen(name, seconds, np.unpackbits(packed)[:count], bool(ran))


def _lines() -> Iterator[tuple[str, float, str]]:
    if TESTS.exists():
        with TESTS.open(encoding="utf-8") as file:
            yield from (json.loads(each) for each in file)


def ordered(
    near: Iterable[str], record: Record, kills: Mapping[str, int], own: Iterable[str]
) -> list[str]:
    """Tests in the order in which they are tried.

    Quick ones come before slow ones, those that saw other mutants and those of the room before
    others, and of many cases of one test each comes later than the one before it.
    """
    families: dict[str, list[tuple[float, str]]] = {}
    room = tuple(own)
    for name in near:
        family = name.partition("[")[0]
        weight = 1 + 4 * kills.get(name, 0) + kills.get(family, 0)
        weight *= 2 if name.startswith(room) else 1
        seconds = record.tests[name].seconds + COLLECTED
        families.setdefault(family, []).append((seconds / weight, name))
    places = [
        (cost * (1 + rank), name)
        for each in families.values()
        for rank, (cost, name) in enumerate(sorted(each))
    ]
    return [name for _, name in sorted(places)]
