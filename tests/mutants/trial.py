"""One mutant against its tests, in a process of its own.

A server collects the tests once and forks for each mutant: there the changed code is given to the
functions that exist. A change of a module or class needs a process that has not imported it yet.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
import pytest
from mutants import seen
from mutants.plant import Mutant
from mutants.reach import Watch
from mutants.rooms import ROOT
from mutants.swap import Functions, functions, swap

SECONDS = 40  # of CPU; a mutant that needs more is taken to be in an endless loop
PATIENCE = 3.0  # and so is one under which a test takes so many times a second and its own time
LONGEST = 4  # seconds of a test that is worth its time
# By the clock, for a mutant that waits for ever; on a busy machine a second of CPU takes many.
WAITING = 6
LATE = (signal.SIGXCPU, signal.SIGPROF, signal.SIGALRM, signal.SIGKILL)
SUPPORT = "xg.codegen.emit.spelling"
OTHER_PROCESSES = ("warm_python", "warm_program", "warm_ranks", "driver")
Verdict = Literal["killed", "slow", "survived", "not tested", "no swap", "broken"]
_CODES: dict[int, Verdict] = {
    0: "survived",
    1: "killed",
    2: "no swap",
    3: "not tested",
    4: "broken",
}


class _Planted(MetaPathFinder, SourceLoader):
    """Finds one module, with its change."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        parts = mutant.path.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[1:]).removesuffix(".__init__")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != self.name:
            return None
        package = self.mutant.path.stem == "__init__"
        spec = spec_from_loader(fullname, self, is_package=package)  # with its __file__
        if spec and package:
            spec.submodule_search_locations = [str(self.mutant.path.parent)]
        return spec

    def get_filename(self, fullname: str) -> str:
        return str(self.mutant.path)

    def get_data(self, path: str) -> bytes:
        return self.mutant.text.encode()


class Ordered:
    """A plugin of pytest that runs some of the collected tests, in the order of their names."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which test failed."""
        if report.failed:
            self.failed = report.nodeid

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is named."""
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in self.names if name in by_name]


class Server:
    """A plugin of pytest that judges mutants instead of running the tests."""

    def __init__(self, asked: Sequence[Connection]) -> None:
        self.asked = asked
        self.failed = ""
        self.ran = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember which test failed."""
        self.ran += report.when == "call"
        if report.failed:
            self.failed = report.nodeid

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer on each connection in a process of its own."""
        items = {item.nodeid: item for item in session.items}
        live = functions()
        texts = copied_texts()
        for asked in self.asked:
            if os.fork() == 0:
                for other in self.asked:
                    if other is not asked:
                        other.close()
                self._answer(asked, items, live, texts)
                os._exit(0)
        for asked in self.asked:
            asked.close()
        for _ in self.asked:
            os.wait()
        return True

    def _answer(
        self,
        asked: Connection,
        items: Mapping[str, pytest.Item],
        live: Functions,
        texts: Collection[Path],
    ) -> None:
        """Answer each question: a mutant, and tests with the seconds that they take."""
        while (question := asked.recv()) is not None:
            mutant, times = question
            tests = {items[name]: time for name, time in times.items() if name in items}
            is_text = mutant.path in texts
            asked.send(
                forked(lambda m=mutant, t=tests, i=is_text: self._try(m, t, live, i), SECONDS)
            )

    def _try(
        self, mutant: Mutant, tests: Mapping[pytest.Item, float], live: Functions, is_text: bool
    ) -> tuple[int, str]:
        swapped = swap(mutant, live)
        if is_text:
            _plant_text(mutant)
        elif not swapped:
            return 2, ""
        for test, seconds in tests.items():
            signal.setitimer(signal.ITIMER_PROF, PATIENCE * (1 + seconds))
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=None)
            if self.failed:
                return 1, self.failed
        return (0 if self.ran else 3), ""


class Recorder:
    """A plugin of pytest that notes what each test runs, in a process of its own for each.

    So it is when mutants are tried: nothing is remembered of an earlier test.
    """

    def __init__(self, watch: Watch, end: float) -> None:
        self.watch, self.end, self.failed = watch, end, False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that a test failed: it can judge nothing."""
        self.failed = self.failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record the tests that the record has not, on every processor."""
        known = seen.recorded()
        if seen.IMPORT not in known:
            ran = np.frombuffer(bytes(self.watch.ran), np.uint8)
            seen.add(seen.Seen(seen.IMPORT, 0.0, ran, True))
        left = [item for item in _spread(session.items) if item.nodeid not in known]
        watch_texts(self.watch)
        workers = len(os.sched_getaffinity(0))
        for first in range(1, workers):
            if os.fork() == 0:
                self.watch.ran = self.watch.another()
                self._record(left[first::workers])
                os._exit(0)
        self._record(left[::workers])
        for _ in range(1, workers):
            os.wait()
        return True

    def _record(self, items: Sequence[pytest.Item]) -> None:
        for item in items:
            if time.monotonic() > self.end:
                return
            self.watch.ran[:] = bytes(len(self.watch.ran))
            verdict, _, spent = forked(lambda item=item: self._run(item), LONGEST)
            ran = np.frombuffer(self.watch.ran, np.uint8)
            useful = verdict == "survived"
            seen.add(seen.Seen(item.nodeid, float(spent or LONGEST), ran, useful))

    def _run(self, item: pytest.Item) -> tuple[int, str]:
        began = time.process_time()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return int(self.failed), f"{time.process_time() - began:.3f}"


def watch_texts(watch: Watch) -> None:
    """Note each function that is copied, as text, into a module that a backend writes."""
    writer = import_module(SUPPORT).SupportFile
    source = writer.source

    def watched(support: object, function: str) -> str:
        for path in support.__dict__["paths"]:
            watch.mark(Path(path).relative_to(ROOT).as_posix(), function)
        return source(support, function)

    writer.source = watched


def copied_texts() -> set[Path]:
    """Find the files whose functions are copied, as text, into the modules that backends write."""
    gc.unfreeze()
    every: list[Any] = gc.get_objects()
    writers = [each for each in every if type(each).__name__ == "SupportFile"]
    gc.freeze()
    return {path for each in writers for path in each.paths}


def _spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Put the first case of every test before any second one, and files in a mixed order.

    So a record that was stopped is of all rooms. Tests in other processes would see no change.
    """
    ranks: dict[str, int] = {}
    places: list[tuple[int, bytes, pytest.Item]] = []
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "mutants") or any(
            name in OTHER_PROCESSES for name in getattr(item, "fixturenames", ())
        ):
            continue
        family = item.nodeid.partition("[")[0]
        ranks[family] = ranks.get(family, -1) + 1
        places.append((ranks[family], sha256(item.nodeid.encode()).digest(), item))
    return [item for *_, item in sorted(places, key=lambda each: each[:2])]


def _plant_text(mutant: Mutant) -> None:
    """Change the text that readers of the file find."""
    read_text = Path.read_text

    def planted(path: Path, *args: str, **kwargs: str) -> str:
        return mutant.text if path == mutant.path else read_text(path, *args, **kwargs)

    Path.read_text = planted  # pyright: ignore[reportAttributeAccessIssue]
    gc.unfreeze()
    every: list[Any] = gc.get_objects()
    for each in every:
        if type(each).__name__ == "SupportFile":
            each.__dict__.pop("_functions", None)


def forked(work: Callable[[], tuple[int, str]], seconds: int) -> tuple[Verdict, float, str]:
    """Do work in a process that may be killed: how it ended, how long it took, what it said."""
    began = time.monotonic()
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        os.setsid()
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
            signal.alarm(WAITING * seconds)
            code, word = work()
            os.write(said, word.encode())
        finally:
            os._exit(code)
    os.close(said)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started and left behind
    os.set_blocking(heard, False)  # a process that the child left behind may have it open
    try:
        word = os.read(heard, 4096).decode()
    except BlockingIOError:
        word = ""
    os.close(heard)
    took = time.monotonic() - began
    if os.WIFSIGNALED(status):
        late = os.WTERMSIG(status) in LATE
        return ("slow" if late else "killed"), took, word
    return _CODES.get(os.WEXITSTATUS(status), "killed"), took, word


def record(tests: Sequence[str], end: float) -> None:
    """See what each test runs, until the clock says so; here nothing may import the compiler."""
    blocks = seen.begin()

    def work() -> tuple[int, str]:
        watch = Watch(blocks)
        watch.install()
        return _pytest(tests, Recorder(watch, end)), ""

    forked(work, 3600)


def serve(tests: Sequence[str], count: int) -> list[Connection]:
    """Start servers that have collected some tests, and give the connections to them."""
    pipes = [Pipe() for _ in range(count)]
    if os.fork() == 0:
        for here, _ in pipes:
            here.close()
        code = 1
        try:
            code = _pytest(tests, Server([there for _, there in pipes]))
        finally:
            os._exit(code)
    for _, there in pipes:
        there.close()
    return [here for here, _ in pipes]


def judge_imported(mutant: Mutant, names: Sequence[str]) -> tuple[Verdict, float, str]:
    """Try a mutant in a process that imports it; nothing of the compiler may be imported here."""
    # Collecting a doctest imports its file by its path, as it is on the disk.
    tests = [name for name in names if name.startswith("tests/")]
    if not tests:
        return "not tested", 0.0, ""

    def work(planted: bool) -> tuple[int, str]:
        if planted:
            sys.meta_path.insert(0, _Planted(mutant))
        code = _pytest(["-x", *dict.fromkeys(name.partition("::")[0] for name in tests)], only)
        return (code if code <= 1 else 4), only.failed

    only = Ordered(tests)
    verdict, seconds, word = forked(lambda: work(True), 2 * SECONDS)
    if verdict == "broken":  # pytest could not collect or start
        control, more, _ = forked(lambda: work(False), 2 * SECONDS)
        seconds += more
        verdict = "killed" if control == "survived" else "not tested"
    return verdict, seconds, word


def _pytest(arguments: Sequence[str], plugin: object) -> int:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir(ROOT)
    os.environ["XG_VERIFY"] = "1"
    sys.dont_write_bytecode = True
    quiet = ("-q", "-p", "no:cacheprovider", "--no-header", "--tb=no")
    return int(pytest.main([*quiet, *arguments], plugins=[plugin]))
