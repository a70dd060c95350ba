"""Plant errors and count those that no test sees: ``./dev mutants ir passes/shard --count 50``."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

from mutants import seen
from mutants.plant import Mutant, mutants
from mutants.rooms import ROOT, files, rooms, sources
from mutants.seen import Record
from mutants.trial import Verdict, judge_imported, record, serve

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
RESULTS = seen.FOLDER / "results.tsv"
COLUMNS = ("planted", "killed", "survived", "equivalent", "not tested")
WORTH = 12.0  # seconds of tests for one mutant
OUTSIDE = 3  # times as many for a value of a module, of which nothing says which tests use it
PRELOADED = ("jax", "lark", "torch", "wasmtime")  # once, and not in the process of each mutant
Kills = dict[str, dict[str, int]]


def main() -> int:
    """Try mutants room by room; 1 if one survived that is not known to be equivalent."""
    options = _options()
    sample = _sample(options)
    _record(None if options.record is None else 60 * options.record)
    verdicts = {} if options.again else _verdicts()
    known = equivalents()
    if options.survivors:
        sample = [each for each in sample if verdicts.get(each.key) in {"survived", "not tested"}]
        verdicts = {}
    left = [each for each in sample if not is_known(each, known) and each.key not in verdicts]
    _try(left, options.seconds, time.monotonic() + 60 * options.minutes)
    return _report(sample, known)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev mutants",
        description="Plant one change at a time and run the tests that should see it. "
        "Verdicts are kept in build/mutants, so a run goes on where the last one ended.",
    )
    names = ", ".join(rooms())
    parser.add_argument(
        "places",
        nargs="*",
        metavar="ROOM",
        help=f"one of {names}; or a folder or file, such as passes/shard or ir/dim.py",
    )
    parser.add_argument("--count", type=int, default=100, help="mutants in each room")
    parser.add_argument("--sample", type=int, help="so many of all rooms together instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="at most")
    parser.add_argument("--seconds", type=float, default=WORTH, help="of tests for one mutant")
    parser.add_argument(
        "--record",
        type=float,
        metavar="MINUTES",
        help="first record what tests run, of those that the record lacks",
    )
    parser.add_argument("--survivors", action="store_true", help="try those again that survived")
    parser.add_argument("--again", action="store_true", help="try all again")
    parser.add_argument("--line", metavar="TEXT", help="only mutants whose change has this text")
    options = parser.parse_args()
    for place in options.places:
        if not list(files(place)):
            parser.error(f"no room, folder or file is called {place}; the rooms are {names}")
    return options


def _sample(options: argparse.Namespace) -> list[Mutant]:
    """Draw mutants. A change of the code elsewhere leaves the order as it was."""
    places = {place: list(files(place)) for place in options.places} or rooms()
    if options.sample is not None:
        places = {"": list(dict.fromkeys(path for each in places.values() for path in each))}
    drawn: list[Mutant] = []
    for paths in places.values():
        every = [each for path in paths for each in mutants(path)]
        if options.line:
            every = [each for each in every if options.line in str(each)]
        every.sort(key=lambda each: sha256(f"{options.seed} {each.key}".encode()).digest())
        drawn += every[: options.count if options.sample is None else options.sample]
    return list({each.key: each for each in drawn}.values())


def _record(seconds: float | None) -> None:
    """Record what tests run: the changed files of tests, and those that the record lacks."""
    if seconds is None and seen.TESTS.exists():
        changed = seen.forget_changed()
        if changed:
            record(changed, time.monotonic() + 300)
        seen.begin()
        return
    _say("recording which tests run what; this is done once")
    record(["tests"], time.monotonic() + (1200 if seconds is None else seconds))


def _try(left: Sequence[Mutant], seconds: float, end: float) -> None:
    """Judge mutants on every processor."""
    if not left:
        return
    recorded = seen.read()
    trials = {each.key: near(each, recorded, seconds) for each in left}
    tests = {name.partition("::")[0] for names in trials.values() for name in names}
    count = len(os.sched_getaffinity(0))
    servers = serve(sorted(tests), count)
    for name in PRELOADED:
        importlib.import_module(name)
    children: list[int] = []
    for place, server in enumerate(servers):
        if child := os.fork():
            children.append(child)
            continue
        for mutant in left[place::count]:
            if time.monotonic() < end:
                _keep(mutant, *judge(mutant, trials[mutant.key], recorded, server))
        os._exit(0)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    for server in servers:
        try:
            server.send(None)
        except OSError:
            failed.append(0)
    if failed:
        _say("a process that tries mutants ended early: what it had left is not tried")


def near(mutant: Mutant, record: Record, seconds: float) -> list[str]:
    """Choose the tests of a mutant: the quickest of those that reach it, worth so many seconds."""
    path = mutant.path.relative_to(ROOT).as_posix()
    if mutant.block is not None and not record.at_import(mutant.block):
        names = record.near(mutant.block, path)
    else:
        names = record.near(mutant.block, path) if mutant.block else []
        names = list(dict.fromkeys([*names, *record.near(None, path, importers(mutant.path))]))
        seconds *= OUTSIDE
    kept: list[str] = []
    for name in seen.ordered(names, record, _kills().get(path, {}), [f"tests/{mutant.room}/"]):
        seconds -= record.tests[name].seconds + seen.COLLECTED
        if seconds < 0 and kept:
            break
        kept.append(name)
    return kept


def judge(
    mutant: Mutant, names: Sequence[str], record: Record, server: Connection
) -> tuple[Verdict, float, str, int]:
    """Return the verdict of tests, their seconds, which one saw it, and how many they are."""
    if not names:
        return "not tested", 0.0, "", 0
    if mutant.block is not None and not record.at_import(mutant.block):
        server.send((mutant, {name: record.tests[name].seconds for name in names}))
        verdict, seconds, word = server.recv()
        if verdict != "no swap":
            return verdict, seconds, word, len(names)
    return *judge_imported(mutant, names), len(names)


def importers(path: Path) -> list[str]:
    """List the files that import a module."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")
    package, _, name = module.rpartition(".")
    named = rf"^\s*(from {re.escape(module)} import |import {re.escape(module)}\b"
    pattern = re.compile(rf"{named}|from {re.escape(package)} import [^\n]*\b{name}\b)", re.M)
    return [user for user, text in _texts().items() if pattern.search(text)]


@cache
def _texts() -> Mapping[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sources()}


def _keep(mutant: Mutant, verdict: Verdict, seconds: float, word: str, count: int) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(f"{verdict}\t{seconds:.1f}\t{count}\t{mutant.key}\t{word}\n")
    if verdict in {"survived", "not tested"}:
        line = f"{mutant.path.relative_to(ROOT)}:{mutant.start[0]}"
        _say(f"{verdict}: {line}: {mutant}  ({count} tests, {seconds:.0f} s)")


def _report(sample: Sequence[Mutant], known: Collection[str]) -> int:
    """Print the counts of each room and of all; return 1 if a mutant survived."""
    verdicts = _verdicts()
    counts: dict[str, Counter[str]] = {}
    for mutant in sample:
        verdict = "equivalent" if is_known(mutant, known) else verdicts.get(mutant.key)
        if verdict is not None:  # otherwise the time was over before its turn
            verdict = "killed" if verdict == "slow" else verdict
            counts.setdefault(mutant.room, Counter())[verdict] += 1
            counts[mutant.room]["planted"] += 1
    counts = dict(sorted(counts.items()))
    if len(counts) != 1:
        total: Counter[str] = Counter()
        for count in counts.values():
            total.update(count)
        counts["all rooms"] = total
    _say("".join([f"{'room':14}", *(f"{each:>12}" for each in (*COLUMNS, "score"))]))
    for room, count in counts.items():
        _say("".join([f"{room:14}", *(f"{count[each]:12}" for each in COLUMNS), score(count)]))
    return int(any(count["survived"] for count in counts.values()))


def score(count: Mapping[str, int]) -> str:
    """Write the share that was killed of all but the equivalent ones: what is not tested counts."""
    told = count["planted"] - count["equivalent"]
    return f"{100 * count['killed'] / told:10.1f} %" if told else f"{'–':>12}"


def _verdicts() -> dict[str, str]:
    """Return the last verdict of each mutant."""
    return {key: verdict for verdict, _, _, key, _ in _results()}


def _results() -> Iterator[list[str]]:
    if RESULTS.exists():
        for line in RESULTS.read_text("utf-8").splitlines():
            yield line.split("\t")


@cache
def _kills() -> Kills:
    """Count by file how many mutants each test saw, for it and for the test it is a case of."""
    found: Kills = {}
    for *_, key, word in _results():
        if word:
            counts = found.setdefault(key.partition(":")[0], {})
            for name in (word, word.partition("[")[0]):
                counts[name] = counts.get(name, 0) + 1
    return found


def equivalents() -> dict[str, str]:
    """Read the mutants that change nothing that anyone could see, each with the reason."""
    rows = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    return {each["mutant"]: each["why"] for each in rows}


def is_known(mutant: Mutant, known: Collection[str]) -> bool:
    """Tell whether a mutant is listed as equivalent; ` #2` names one of the same text."""
    return str(mutant) in known or f"{mutant} #{mutant.number}" in known


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
