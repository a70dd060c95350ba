"""Which functions each test calls, and how long it takes: recorded once, kept in ``build``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import pytest
from mutants.rooms import ROOT

RECORD = ROOT / "build" / "mutants" / "seen.json"
PACKAGES = tuple(str(ROOT / name) for name in ("compiler", "runtime"))
SAVED = 20.0  # seconds between two savings of a record
Function = tuple[str, str]  # its file below the root, its qualified name


@dataclass(frozen=True)
class Seen:
    """The functions that one test called, and its seconds."""

    seconds: float
    functions: frozenset[Function]


def function_of(code: CodeType) -> Function:
    """The function that a code is of; a comprehension or lambda is of the function it is in."""
    path = Path(code.co_filename)
    name = code.co_qualname.partition(".<locals>")[0]
    return path.relative_to(ROOT).as_posix(), name


class Recorder:
    """Runs tests and notes the functions that each calls; `failed` says of the last how it went."""

    def __init__(self, failed: Callable[[], str]) -> None:
        self.failed = failed
        self.called: set[CodeType] = set()
        self.shared: dict[str, set[CodeType]] = {}  # by file: called before a test begins
        self.found: dict[str, Seen] = {}

    def run(self, items: Sequence[pytest.Item]) -> None:
        """Run them, and keep the record as it grows: a test that fails here can judge nothing."""
        kept = read() if RECORD.exists() else {}
        self.found = dict(kept)
        write(self.found)
        left = [item for item in items if item.nodeid not in kept]
        last = time.monotonic()
        for item, following in zip(left, [*left[1:], None], strict=True):
            self._run(item, following)
            if time.monotonic() - last > SAVED or following is None:
                last = time.monotonic()
                write(self.found)

    def after_setup(self, name: str) -> None:
        """Fixtures may be of all tests of a file: what they call, each of these calls."""
        self.shared.setdefault(name.partition("::")[0], set()).update(self.called)

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        self.called = set()
        began = time.process_time()
        sys.settrace(self._note)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            sys.settrace(None)
        seconds = time.process_time() - began
        if self.failed() != item.nodeid:
            called = self.called | self.shared.get(item.nodeid.partition("::")[0], set())
            self.found[item.nodeid] = Seen(seconds, frozenset(map(function_of, called)))

    def _note(self, frame: FrameType, event: str, value: object) -> None:
        del event, value
        if frame.f_code.co_filename.startswith(PACKAGES):
            self.called.add(frame.f_code)


def write(found: Mapping[str, Seen]) -> None:
    """Keep a record, with each function once."""
    table = sorted({each for seen in found.values() for each in seen.functions})
    place = {each: index for index, each in enumerate(table)}
    tests = {
        name: [round(seen.seconds, 3), sorted(place[each] for each in seen.functions)]
        for name, seen in found.items()
    }
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps({"functions": table, "tests": tests}), encoding="utf-8")


def read() -> dict[str, Seen]:
    """The record that was kept."""
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    table: list[Function] = [(path, name) for path, name in kept["functions"]]
    tests: dict[str, tuple[float, list[int]]] = kept["tests"]
    return {
        name: Seen(seconds, frozenset(table[index] for index in called))
        for name, (seconds, called) in tests.items()
    }


def nearest(seen: Mapping[str, Seen], function: Function | None, path: str) -> list[str]:
    """The tests that call a function, or any of a file if it is None: the quick ones first."""

    def sees(each: Seen) -> bool:
        if function is not None:
            return function in each.functions
        return any(name == path for name, _ in each.functions)

    calling = [name for name, each in seen.items() if sees(each)]
    return sorted(calling, key=lambda name: seen[name].seconds)
