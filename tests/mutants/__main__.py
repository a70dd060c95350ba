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
from mutants.rooms import ROOMS, ROOT
from mutants.seen import Seen
from mutants.swap import home
from mutants.trial import Verdict, is_text, judge_imported, serve

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
RESULTS = seen.RECORD.with_name("results.tsv")
WRITER = ("compiler/xg/codegen/emit/support.py", "SupportFile.closure")
WORTH = 40.0  # seconds of tests for one mutant


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
    parser.add_argument("--minutes", type=float, help="at most, in all")
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
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    rooms = options.rooms or list(ROOMS)
    if options.record:
        seen.RECORD.unlink(missing_ok=True)
    server = serve(list(dict.fromkeys(test for room in rooms for test in ROOMS[room].tests)))
    server.send("record")
    server.recv()
    record, known, survivors = seen.read(), _known(), 0
    for room in rooms:
        before = _verdicts(f"{room}\t{options.seed}")
        sample = _sampled(room, options.count, options.seed, before)[options.first :]
        if options.again:
            sample = [each for each in sample if options.again in str(each)]
        if options.survivors:
            sample = [each for each in sample if before.get(str(each)) == "survived"]
        trial = _Trial(server, record, known, f"{room}\t{options.seed}", options.seconds)
        trial.before = before if options.resume else {}
        survivors += trial.run(room, _until(end, sample))
    server.send(None)
    return 1 if survivors else 0


class _Trial:
    """The trial of a sample of mutants: counts, and a line of the results for each."""

    def __init__(
        self,
        server: Connection,
        record: dict[str, Seen],
        known: set[str],
        label: str,
        seconds: float,
    ) -> None:
        self.server, self.record, self.known, self.label = server, record, known, label
        self.seconds = seconds
        self.before: dict[str, str] = {}  # verdicts that hold without a trial

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
            verdict, seconds, count = self.judge(mutant)
            killed += verdict != "survived"
            with RESULTS.open("a", encoding="utf-8") as file:
                spent = f"{verdict}\t{seconds:.1f}\t{count}"
                file.write(f"{self.label}\t{spent}\t{mutant}\n")
            if verdict == "survived":
                _say(f"{mutant.start[0]}: {mutant}  ({count} tests, {seconds:.0f} s)")
        if tried:
            share = 100 * killed / tried
            _say(f"{room}: {killed} of {tried} killed, {share:.1f} %; {equivalent} equivalent")
        return tried - killed

    def judge(self, mutant: Mutant) -> tuple[Verdict, float, int]:
        """The verdict of the nearest tests, the seconds that they took, and how many they are."""
        function, path = home(mutant), mutant.path.relative_to(ROOT).as_posix()
        near = seen.nearest(self.record, function, path)
        if is_text(mutant.path):
            near += [name for name in seen.nearest(self.record, WRITER, path) if name not in near]
        names = self.worth(near)
        if not names:
            return "survived", 0.0, 0
        if function is not None:
            self.server.send((mutant, {name: self.record[name].seconds for name in names}))
            verdict, seconds = self.server.recv()
            if verdict != "no swap":
                return verdict, seconds, len(names)
        return *judge_imported(mutant, names), len(names)

    def worth(self, names: Sequence[str]) -> list[str]:
        """As many tests as are worth their time."""
        kept: list[str] = []
        left = self.seconds
        for name in names:
            left -= self.record[name].seconds
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
    if not RESULTS.exists():
        return {}
    lines = (line.split("\t", 5) for line in RESULTS.read_text("utf-8").splitlines())
    return {
        last: verdict for room, seed, verdict, _, _, last in lines if f"{room}\t{seed}" == label
    }


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
