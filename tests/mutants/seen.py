"""Which blocks each test runs, and how long it takes: recorded once, kept in ``build``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from mutants import reach
from mutants.reach import Block
from mutants.rooms import ROOT

FOLDER = ROOT / "build" / "mutants"
BLOCKS, TESTS = FOLDER / "blocks.json", FOLDER / "tests.jsonl"
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

    def near(self, block: Block | None, path: str) -> list[str]:
        """The tests that run a block; any block of its function, or of a file, if it is unknown.

        All tests, where a file has no function that a test runs: its values are used elsewhere.
        """
        wanted = [place for place, each in enumerate(self.blocks) if each == block]
        wanted = wanted or [
            place
            for place, each in enumerate(self.blocks)
            if each.path == path and (block is None or each.function == block.function)
        ]
        near = [name for name, each in self.tests.items() if each.ran[wanted].any()]
        return list(self.tests) if block is None and not near else near


def line(seen: Seen) -> str:
    """One test as the record keeps it."""
    ran = np.packbits(seen.ran).tobytes().hex() if seen.useful else ""
    return json.dumps([seen.name, round(seen.seconds, 3), ran]) + "\n"


def begin() -> list[Block]:
    """Make the record one of the blocks that there are now, and return these."""
    now = reach.table()
    kept = read() if BLOCKS.exists() else None
    if kept is None or kept.blocks != now:
        places = {block: place for place, block in enumerate(kept.blocks)} if kept else {}
        old = [places.get(block, len(places)) for block in now]
        FOLDER.mkdir(parents=True, exist_ok=True)
        BLOCKS.write_text(json.dumps(now), encoding="utf-8")
        tests = kept.tests.values() if kept else ()
        moved = (
            Seen(each.name, each.seconds, np.append(each.ran, np.uint8(0))[old], True)
            for each in tests
        )
        TESTS.write_text("".join(map(line, moved)), encoding="utf-8")
    return now


def read() -> Record:
    """The record that was kept."""
    blocks = [Block(*each) for each in json.loads(BLOCKS.read_text(encoding="utf-8"))]
    return Record(blocks, _tests(len(blocks)))


def recorded() -> set[str]:
    """The names of the tests that were recorded, also those of no use."""
    return {name for name, _, _ in _lines()}


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
