"""Garbage is collected while no one waits for an answer.

A check makes so many objects that a search among them takes longer than a check after an edit. So
a short pause is for those made since the last one, a long one for all.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from xg.diagnostics.lazy_dataclass import dataclass

PAUSE = 1.0  # seconds without a check until new garbage is collected
LONG_PAUSE = 10.0  # seconds without a check until all is
CHECKS_AT_MOST = 100  # that may follow each other without a long pause
NEW, ALL = 1, 2  # how old the objects are among which garbage is looked for


@dataclass(slots=True)
class IdleCollector:
    """Collects in pauses, in a process whose own collector rests; in others it does nothing.

    `run` has some work done in a thread.
    """

    run: Callable[..., object]
    checks: int = 0  # since all garbage was collected
    timers: tuple[asyncio.TimerHandle, ...] = ()

    def checked(self) -> None:
        """Begin to wait for a pause, behind a check."""
        self.stop()
        self.checks += 1
        if self.checks < CHECKS_AT_MOST:
            later = asyncio.get_running_loop().call_later
            pauses = ((PAUSE, NEW), (LONG_PAUSE, ALL))
            self.timers = tuple(later(pause, self._collect, age) for pause, age in pauses)
        else:
            self._collect(ALL)

    def stop(self) -> None:
        """Wait no longer."""
        for timer in self.timers:
            timer.cancel()

    def _collect(self, age: int) -> None:
        if age == ALL:
            self.checks = 0
        if not gc.isenabled():
            self.run(gc.collect, age)
