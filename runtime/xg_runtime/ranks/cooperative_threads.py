"""Cooperative threads: one runs until it waits for the others, then the next one.

The order of turns depends only on what the threads wait for, so a run is the same every time, down
to which of two errors is found first; and a deadlock is found at once.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Stuck(Exception):
    """Every thread that has not ended waits for something that no thread will do."""


class Overdue(Exception):
    """The thread of number `place` has kept its turn for too long."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Failed(Exception):
    """The thread of number `place` ended with an exception, its cause."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Stopped(BaseException):
    """Raised inside a waiting thread that is to end because another has failed."""


class _Turn(Generic[T]):
    """One thread: whether it may continue, and how it ended."""

    def __init__(self, place: int, body: Callable[[], T]) -> None:
        self.place = place
        self.body = body
        self.go = threading.Lock()  # held, but for the moment in which its turn begins
        self.go.acquire()
        self.ready: Callable[[], bool] = lambda: True
        self.thread: threading.Thread | None = None  # once it has started
        self.ended = self.lost = False
        self.result: list[T] = []
        self.error: BaseException | None = None


class CooperativeThreads(Generic[T]):
    """Threads numbered from 0; `run` gives what their bodies returned, in order.

    A thread that waits chooses the next one and wakes it: a turn costs one switch between threads.
    """

    def __init__(self, bodies: Sequence[Callable[[], T]], timeout: float) -> None:
        """`timeout` bounds one turn, in seconds."""
        self._turns = [_Turn(place, body) for place, body in enumerate(bodies)]
        self._running = self._turns[0] if self._turns else None
        self._since = 0.0  # when its turn began
        self._back = threading.Semaphore(0)
        self._timeout = timeout
        self._stopping = False
        self._context = contextvars.copy_context()  # how the caller treats overflow, and the like

    def run(self) -> list[T]:
        """Run all to their end; raises Failed, Stuck or Overdue, and ends the others first."""
        try:
            self._pass_on()
            self._await_end()
        finally:
            self._stop()
        return [turn.result[0] for turn in self._turns]

    def pause(self, place: int, ready: Callable[[], bool]) -> None:
        """Called by thread `place`: let the others run until `ready` holds."""
        if self._stopping:  # code that cleans up behind a failure would wait for ever
            raise Stopped
        turn = self._turns[place]
        turn.ready = ready
        self._pass_on()
        turn.go.acquire()
        if self._stopping:
            raise Stopped

    def _pass_on(self) -> None:
        """Give the turn to the first thread that may continue, or back to `run` if none may."""
        able = next((turn for turn in self._turns if not turn.ended and turn.ready()), None)
        if able is None:
            self._back.release()
            return
        self._running, self._since = able, time.monotonic()
        if able.thread is not None:
            able.go.release()
            return
        context = self._context.copy()
        able.thread = threading.Thread(target=context.run, args=(self._thread, able), daemon=True)
        able.thread.start()

    def _await_end(self) -> None:
        """Wait until all have ended, or one has failed."""
        while not self._back.acquire(timeout=self._remaining_seconds()):
            running = self._running
            if running is not None and not self._remaining_seconds():
                running.lost = True
                raise Overdue(running.place)
        for turn in self._turns:
            if turn.error is not None:
                raise Failed(turn.place) from turn.error
        if not all(turn.ended for turn in self._turns):
            raise Stuck

    def _remaining_seconds(self) -> float:
        """The seconds that are left of this turn."""
        return max(self._since + self._timeout - time.monotonic(), 0.0)

    def _thread(self, turn: _Turn[T]) -> None:
        try:
            turn.result.append(turn.body())
        except BaseException as error:
            turn.error = error
        turn.ended = True
        if self._stopping or turn.error is not None:
            self._back.release()
        else:
            self._pass_on()

    def _stop(self) -> None:
        """End what is waiting; a thread that keeps its turn ends when it would wait."""
        self._stopping = True
        for turn in self._turns:
            if turn.thread is None:
                continue
            if not turn.ended and not turn.lost:
                turn.go.release()
                self._back.acquire(timeout=1)
            if turn.ended:
                turn.thread.join()
