"""Plant errors and count those that no test sees: ``python -m mutants emission --count 50``."""

from __future__ import annotations

import argparse
import sys
import time
import tomllib
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

# Imported here once, and not in the process of each mutant.
import jax  # noqa: F401  # pyright: ignore
import lark  # noqa: F401  # pyright: ignore
import numpy  # noqa: F401  # pyright: ignore
import torch  # noqa: F401  # pyright: ignore
import wasmtime  # noqa: F401  # pyright: ignore
from mutants import seen
from mutants.plant import Mutant, mutants
from mutants.reach import Block
from mutants.rooms import ROOMS, ROOT
from mutants.seen import Record
from mutants.trial import Verdict, is_text, judge_imported, record, serve

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
RESULTS = seen.FOLDER / "results.tsv"
WRITER = Block("compiler/xg/codegen/emit/support.py", "SupportFile.closure", 0)
Kills = dict[str, dict[str, int]]
WORTH = 12.0  # seconds of tests for one mutant
OUTSIDE = 5  # times as many for a change of which nothing says which tests run it


def main() -> int:
    """Try mutants room by room; 1 if one survived that is not known to be equivalent."""
    parser = argparse.ArgumentParser(
        prog="./dev mutants",
        description="Plant one change at a time and run the tests that should see it.",
    )
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(ROOMS)}")
    parser.add_argument("--count", type=int, default=100, help="mutants in each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="leave out so many of the sample")
    parser.add_argument("--minutes", type=float, help="at most; half for the record")
    parser.add_argument(
        "--seconds", type=float, default=WORTH, help="of tests for one mutant, the quick ones first"
    )
    parser.add_argument("--record", action="store_true", help="see anew which tests call what")
    parser.add_argument("--resume", action="store_true", help="keep the verdicts of earlier runs")
    parser.add_argument("--survivors", action="store_true", help="only those that survived before")
    parser.add_argument("--again", metavar="TEXT", help="only mutants whose line has this text")
    options = parser.parse_args()
    unknown = [room for room in options.rooms if room not in ROOMS]
    if unknown:
        parser.error(f"no room is called {unknown[0]}")
    began, length = time.monotonic(), 60 * (options.minutes or float("inf"))
    rooms = options.rooms or list(ROOMS)
    if options.record:
        seen.BLOCKS.unlink(missing_ok=True)
    tests = list(dict.fromkeys(test for room in rooms for test in ROOMS[room].tests))
    record(tests, began + length / 2)
    server, known, survivors = serve(tests), _known(), 0
    recorded = seen.read()
    for room in rooms:
        before = _verdicts(f"{room}\t{options.seed}")
        sample = _sampled(room, options.count, options.seed, before)[options.first :]
        if options.again:
            sample = [each for each in sample if options.again in str(each)]
        if options.survivors:
            sample = [each for each in sample if before.get(str(each)) == "survived"]
        trial = _Trial(server, recorded, known, f"{room}\t{options.seed}", options.seconds)
        trial.before = before if options.resume else {}
        survivors += trial.run(room, _until(began + length, sample))
    server.send(None)
    return 1 if survivors else 0


class _Trial:
    """The trial of a sample of mutants: counts, and a line of the results for each."""

    def __init__(
        self,
        server: Connection,
        record: Record,
        known: set[str],
        label: str,
        seconds: float,
    ) -> None:
        self.server, self.record, self.known, self.label = server, record, known, label
        self.seconds = seconds
        self.before: dict[str, str] = {}  # verdicts that hold without a trial
        self.kills = _kills()  # by file: how many mutants each test saw

    def run(self, room: str, sample: Iterator[Mutant]) -> int:
        """Say who survives, and return how many."""
        tried = killed = equivalent = 0
        for mutant in sample:
            if str(mutant) in self.known:
                equivalent += 1
                continue
            tried += 1
            if kept := self.before.get(str(mutant)):
                killed += kept != "survived"
                continue
            verdict, seconds, word, count = self.judge(mutant, ROOMS[room].tests)
            killed += verdict != "survived"
            with RESULTS.open("a", encoding="utf-8") as file:
                spent = f"{verdict}\t{seconds:.1f}\t{count}"
                file.write(f"{self.label}\t{spent}\t{mutant}\t{word}\n")
            _add(self.kills, str(mutant), word)
            if verdict == "survived":
                _say(f"{mutant.start[0]}: {mutant}  ({count} tests, {seconds:.0f} s)")
        if tried:
            share = 100 * killed / tried
            _say(f"{room}: {killed} of {tried} killed, {share:.1f} %; {equivalent} equivalent")
        return tried - killed

    def judge(self, mutant: Mutant, own: Sequence[str]) -> tuple[Verdict, float, str, int]:
        """The verdict of the nearest tests, their seconds, which one saw it, how many they are."""
        path = mutant.path.relative_to(ROOT).as_posix()
        near = self.record.near(mutant.block, path)
        if is_text(mutant.path):
            near += sorted(set(self.record.near(WRITER, path)) - set(near))
        unknown = mutant.block is None or is_text(mutant.path)
        left = self.seconds * (OUTSIDE if unknown else 1)
        names = self.worth(seen.ordered(near, self.record, self.kills.get(path, {}), own), left)
        if not names:
            return "survived", 0.0, "", 0
        if mutant.block is not None:
            self.server.send((mutant, {name: self.record.tests[name].seconds for name in names}))
            verdict, seconds, word = self.server.recv()
            if verdict != "no swap":
                return verdict, seconds, word, len(names)
        return *judge_imported(mutant, names), len(names)

    def worth(self, names: Sequence[str], left: float) -> list[str]:
        """As many tests as so many seconds are enough for."""
        kept: list[str] = []
        for name in names:
            left -= self.record.tests[name].seconds + seen.COLLECTED
            if left < 0 and kept:
                break
            kept.append(name)
        return kept


def _sampled(room: str, count: int, seed: int, before: Collection[str]) -> list[Mutant]:
    """So many of a room: those that were tried before, the others in an order that is drawn.

    A change of the code elsewhere leaves the sample as it was.
    """
    every = [each for path in dict.fromkeys(ROOMS[room].paths()) for each in mutants(path, ROOT)]

    def place(mutant: Mutant) -> tuple[bool, bytes]:
        return str(mutant) not in before, sha256(f"{seed} {mutant}".encode()).digest()

    return sorted(every, key=place)[:count]


def _until(end: float, sample: Sequence[Mutant]) -> Iterator[Mutant]:
    for mutant in sample:
        if time.monotonic() > end:
            return
        yield mutant


def _verdicts(label: str) -> dict[str, str]:
    """The last verdict of each mutant of a sample, by what the results call it."""
    return {
        mutant: verdict
        for room, seed, verdict, _, _, mutant, _ in _results()
        if f"{room}\t{seed}" == label
    }


def _results() -> Iterator[list[str]]:
    if RESULTS.exists():
        for line in RESULTS.read_text("utf-8").splitlines():
            yield line.split("\t")


def _kills() -> Kills:
    found: Kills = {}
    for *_, mutant, word in _results():
        _add(found, mutant, word)
    return found


def _add(kills: Kills, mutant: str, word: str) -> None:
    """Count that a test saw a mutant, for it and for the test that it is a case of."""
    if word:
        counts = kills.setdefault(mutant.partition(":")[0], {})
        for name in (word, word.partition("[")[0]):
            counts[name] = counts.get(name, 0) + 1


def _known() -> set[str]:
    """Mutants that change nothing that anyone could see, each with the reason in the file."""
    if not EQUIVALENT.exists():
        return set()
    return {each["mutant"] for each in tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
