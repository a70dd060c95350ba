"""Garbage is collected while no one waits for an answer.

A check makes so many objects that a search among them takes longer than a check after an edit. So
most pauses are for the objects made since the last pause, and few for all.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from xg.diagnostics.lazy_dataclass import dataclass

PAUSE = 1.0  # seconds without a check until new garbage is collected
CHECKS_OF_NEW = 20  # after which a pause is for all garbage
CHECKS_AT_MOST = 100  # that may follow each other without such a pause
NEW, ALL = 1, 2  # how old the objects are among which garbage is looked for


@dataclass(slots=True)
class IdleCollector:
    """Collects in pauses, in a process whose own collector rests; in others it does nothing.

    `run` has some work done in a thread.
    """

    run: Callable[..., object]
    checks: int = 0  # since all garbage was collected
    timer: asyncio.TimerHandle | None = None

    def checked(self) -> None:
        """Begin to wait for a pause, behind a check."""
        self.stop()
        self.checks += 1
        if self.checks < CHECKS_AT_MOST:
            age = NEW if self.checks < CHECKS_OF_NEW else ALL
            self.timer = asyncio.get_running_loop().call_later(PAUSE, self._collect, age)
        else:
            self._collect(ALL)

    def stop(self) -> None:
        """Wait no longer."""
        if self.timer is not None:
            self.timer.cancel()

    def _collect(self, age: int) -> None:
        if age == ALL:
            self.checks = 0
        if not gc.isenabled():
            self.run(gc.collect, age)
