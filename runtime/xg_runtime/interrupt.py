"""Ending between two steps: SIGINT and SIGTERM become a request."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """A context in which the first SIGINT or SIGTERM only sets `requested`.

    The second acts as it would have without this context. Outside the main thread, where Python
    lets no one handle signals, nothing is caught.
    """

    def __init__(self) -> None:
        """Start without a request."""
        self.requested: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Take over both signals."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in _SIGNALS}
            for number in _SIGNALS:
                signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        self._give_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = signal.Signals(number).name
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
