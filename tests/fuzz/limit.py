"""A limit of CPU time for one case, so that a hang is a failure like any other."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager


class TooSlow(BaseException):
    """A case took more CPU than it may; no `except Exception` stops it."""


@contextmanager
def cpu_limit(seconds: float) -> Generator[None]:
    """Raise TooSlow inside after so many seconds of CPU."""

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {seconds} s of CPU")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
