"""Garbage is collected while no one waits for an answer.

A check makes so many objects that a search among them takes longer than a check after an edit.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

from xg.diagnostics.lazy_dataclass import dataclass

PAUSE = 1.0  # seconds without a check until garbage is collected
CHECKS_AT_MOST = 100  # that may follow each other without such a pause


@dataclass(slots=True)
class IdleCollector:
    """Collects after a pause, in a process whose own collector rests; in others it does nothing.

    `run` has some work done in a thread.
    """

    run: Callable[[Callable[[], object]], object]
    checks: int = 0  # since garbage was collected
    timer: asyncio.TimerHandle | None = None

    def checked(self) -> None:
        """Begin to wait for a pause, behind a check."""
        self.stop()
        self.checks += 1
        if self.checks < CHECKS_AT_MOST:
            self.timer = asyncio.get_running_loop().call_later(PAUSE, self._collect)
        else:
            self._collect()

    def stop(self) -> None:
        """Wait no longer."""
        if self.timer is not None:
            self.timer.cancel()

    def _collect(self) -> None:
        self.checks = 0
        if not gc.isenabled():
            self.run(gc.collect)
