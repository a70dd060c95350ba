"""Cooperative threads: one runs until it waits for the others, then the next one.

The order of turns depends only on what the threads wait for, so a run is the same every time, down
to which of two errors is found first; and a deadlock is found at once.
"""

from __future__ import annotations

import contextvars
import threading
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

    def __init__(self, body: Callable[[], T]) -> None:
        self.body = body
        self.go = threading.Semaphore(0)
        self.ready: Callable[[], bool] = lambda: True
        self.started = self.ended = self.lost = False
        self.result: list[T] = []
        self.error: BaseException | None = None


class CooperativeThreads(Generic[T]):
    """Threads numbered from 0; `run` gives what their bodies returned, in order."""

    def __init__(self, bodies: Sequence[Callable[[], T]], timeout: float) -> None:
        """`timeout` bounds one turn, in seconds."""
        self._turns = [_Turn(body) for body in bodies]
        self._back = threading.Semaphore(0)
        self._timeout = timeout
        self._stopping = False

    def run(self) -> list[T]:
        """Run all to their end; raises Failed, Stuck or Overdue, and ends the others first."""
        try:
            while pending := [turn for turn in self._turns if not turn.ended]:
                able = next((turn for turn in pending if turn.ready()), None)
                if able is None:
                    raise Stuck
                self._let(able)
        finally:
            self._stop()
        return [turn.result[0] for turn in self._turns]

    def pause(self, place: int, ready: Callable[[], bool]) -> None:
        """Called by thread `place`: let the others run until `ready` holds."""
        if self._stopping:  # code that cleans up behind a failure would wait for ever
            raise Stopped
        turn = self._turns[place]
        turn.ready = ready
        self._back.release()
        turn.go.acquire()
        if self._stopping:
            raise Stopped

    def _let(self, turn: _Turn[T]) -> None:
        """Give one thread its turn and wait until it gives it back."""
        self._wake(turn)
        place = self._turns.index(turn)
        if not self._back.acquire(timeout=self._timeout):
            turn.lost = True
            raise Overdue(place)
        if turn.error is not None:
            raise Failed(place) from turn.error

    def _wake(self, turn: _Turn[T]) -> None:
        if turn.started:
            turn.go.release()
            return
        turn.started = True
        context = contextvars.copy_context()  # how the caller treats overflow, and the like
        thread = threading.Thread(target=context.run, args=(self._thread, turn), daemon=True)
        thread.start()

    def _thread(self, turn: _Turn[T]) -> None:
        try:
            turn.result.append(turn.body())
        except BaseException as error:
            turn.error = error
        turn.ended = True
        self._back.release()

    def _stop(self) -> None:
        """End what is waiting; a thread that keeps its turn ends when it would wait."""
        self._stopping = True
        for turn in self._turns:
            if turn.started and not turn.ended and not turn.lost:
                turn.go.release()
                self._back.acquire(timeout=1)
