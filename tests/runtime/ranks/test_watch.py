"""When processes fail, the rank that caused it is identified from the records of all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from xg_runtime.errors import RankError
from xg_runtime.ranks import launch as watching
from xg_runtime.ranks.folder import Folder, Heartbeat, Note, Report, read
from xg_runtime.ranks.grid import Grid
from xg_runtime.ranks.launch import Watch

CALL = "all_reduce over N_T of float64 [2]"
GRID = Grid({"N_D": 2, "N_T": 2})


@dataclass
class Clock:
    """Time that passes when the test says so."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Process:
    """A process as far as a watch looks at one."""

    code: int | None = None

    def poll(self) -> int | None:
        return self.code


class Job:
    """Four ranks of which the test says what they do."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.processes = [Process() for _ in range(GRID.count)]
        self.records = [Heartbeat(self.folder.heartbeat(rank)) for rank in range(GRID.count)]
        self.watch = Watch(GRID, self.folder, self.processes, timeout=10)

    def do(self, *states: str) -> None:
        """Let every rank note a state: its first letter, and how many collectives it has begun."""
        words = {"s": "starts", "r": "runs", "w": "waits", "e": "ends"}
        for record, state in zip(self.records, states, strict=True):
            state_word: Any = words[state[0]]
            record.note(state_word, int(state[1:]), CALL)

    def complains(self, rank: int, message: str, *, is_echo: bool) -> None:
        """End a rank with a report."""
        error = RankError(rank, f"{GRID.describe(rank)}: {message}")
        self.folder.write_report(rank, Report(error, is_echo))
        self.processes[rank].code = 4


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    return clock


@pytest.fixture
def job(tmp_path: Path, clock: Clock) -> Iterator[Job]:
    job = Job(tmp_path)
    yield job
    for record in job.records:
        record.close()


def verdict(job: Job, clock: Clock, seconds: float = 0.0) -> RankError:
    """The error that the watch finds now, or after some seconds and not before."""
    if seconds:
        job.watch.look()
        clock.now += seconds - 0.1
        job.watch.look()
        clock.now += 0.2
    with pytest.raises(RankError) as caught:
        job.watch.look()
    return caught.value


def test_all_is_well_until_all_have_ended_well(job: Job, clock: Clock) -> None:
    job.do("r1", "w1", "r1", "e1")
    assert not job.watch.look()
    for process in job.processes:
        process.code = 0
    assert job.watch.look()


def test_the_reason_is_found_behind_its_echoes(job: Job, clock: Clock) -> None:
    job.do("w4", "r3", "w4", "r3")
    job.complains(0, "another rank is gone", is_echo=True)
    job.processes[2].code = -6  # SIGABRT, as torch ends a process that others have left
    job.watch.look()
    job.processes[3].code = -9
    error = verdict(job, clock)
    assert (error.rank, error.exit_code) == (3, 4)
    assert error.message == ("rank 3 (N_D = 1, N_T = 1) was killed by SIGKILL after 3 collectives")


def test_an_error_of_ones_own_is_the_reason(job: Job, clock: Clock) -> None:
    job.complains(1, "another rank is gone", is_echo=True)
    job.complains(2, "step 7: loss is nan", is_echo=False)
    assert verdict(job, clock).message == "rank 2 (N_D = 1, N_T = 0): step 7: loss is nan"


def test_behind_echoes_alone_is_who_says_nothing(job: Job, clock: Clock) -> None:
    job.do("w4", "w4", "w4", "r3")
    job.complains(2, "other ranks did not come within 10 s", is_echo=True)
    error = verdict(job, clock, 1.0)
    assert (error.rank, error.details) == (
        3,
        (f"rank 2 (N_D = 1, N_T = 0) waits in its collective 4, {CALL}",),
    )


def test_echoes_without_a_reason_are_told_as_they_are(job: Job, clock: Clock) -> None:
    job.do("w4", "w4", "w4", "w4")
    job.complains(1, "another rank is gone", is_echo=True)
    assert verdict(job, clock, 1.0).message.endswith("N_T = 1): another rank is gone")


def test_who_keeps_others_waiting_has_until_the_timeout(job: Job, clock: Clock) -> None:
    job.do("w4", "w4", "r3", "w4")
    error = verdict(job, clock, 10.0)
    assert error.message == (
        "rank 2 (N_D = 1, N_T = 0) neither ended nor went on within 10 s after 3 collectives"
    )
    assert len(error.details) == 3


def test_who_computes_while_nobody_waits_may_take_long(job: Job, clock: Clock) -> None:
    job.do("r3", "r3", "r3", "r3")
    job.watch.look()
    clock.now += 1000
    assert not job.watch.look()


def test_starting_may_take_longer(job: Job, clock: Clock) -> None:
    job.do("s0", "w1", "w1", "w1")
    assert verdict(job, clock, 120.0).rank == 0


def test_who_is_at_its_end_while_others_wait_has_left_them(job: Job, clock: Clock) -> None:
    job.do("w4", "w4", "e3", "w4")
    error = verdict(job, clock, 1.0)
    waits = f"while rank 0 (N_D = 0, N_T = 0) waits in its collective 4, {CALL}"
    assert error.message == f"rank 2 (N_D = 1, N_T = 0) ended after 3 collectives, {waits}"


def test_who_waits_for_a_send_waits_in_no_collective(job: Job, clock: Clock) -> None:
    sent = "what rank 0 (N_D = 0, N_T = 0) sends"
    job.do("w4", "w4", "r3", "w4")
    job.records[1].note("waits", 4, sent)
    error = verdict(job, clock, 10.0)
    assert error.details[1] == f"rank 1 (N_D = 0, N_T = 1) waits for {sent}"
    job.processes[1].code = -9
    error = verdict(job, clock)
    said = f"rank 1 (N_D = 0, N_T = 1) was killed by SIGKILL while it waited for {sent}"
    assert error.message == said


def test_what_a_dead_rank_printed_is_shown(job: Job, clock: Clock) -> None:
    job.folder.said(1).write_text("\n".join(map(str, range(9))) + "\n\n")
    job.processes[1].code = 1
    error = verdict(job, clock)
    assert error.message == "rank 1 (N_D = 0, N_T = 1) ended with 1 before its first collective"
    assert error.details == ("4", "5", "6", "7", "8")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "record"
    assert read(path) == Note()
    record = Heartbeat(path)
    record.note("waits", 12, "x" * 1000)
    record.note("runs", 13, CALL)
    record.close()
    assert read(path) == Note("runs", 13, CALL)
    path.write_bytes(b"\xff\x00 nonsense")
    assert read(path) == Note()
