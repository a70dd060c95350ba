"""The files and pages that browsers see now: one thread writes them, those of a server read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from threading import Condition

from xg.diagnostics.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LivePage:
    """The page of a block as of some save; a quick one waits for its numbers.

    A begun one has only the figure that is seen first: who looks at another one waits for that.
    """

    block: str
    html: bytes
    version: int
    is_quick: bool
    is_begun: bool = False


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file: what `xg check` says of it, and the pages of the last text that could be drawn."""

    name: str
    said: str = ""
    failed: bool = False
    pages: tuple[LivePage, ...] = ()


class Board:
    """The files, and a number that grows with every change."""

    def __init__(self, names: Sequence[str]) -> None:
        self._changed = Condition()
        self._files = [LiveFile(name) for name in names]
        self._version = 0
        self._asked: set[tuple[int, int]] = set()

    def put(self, place: int, file: LiveFile) -> None:
        """Show a file in its new state."""
        with self._changed:
            self._files[place] = file
            self._version += 1
            self._changed.notify_all()

    def page(self, place: int, number: int) -> LivePage | None:
        """A page of a file, which somebody looks at from now on; None if there is none."""
        with self._changed:
            pages = self._files[place].pages if 0 <= place < len(self._files) else ()
            if not 0 <= number < len(pages):
                return None
            self._asked.add((place, number))
            return pages[number]

    def waiting(self) -> list[tuple[int, LivePage]]:
        """The quick pages that somebody looks at, with the places of their files."""
        with self._changed:
            pages = [
                (place, self._files[place].pages[number])
                for place, number in sorted(self._asked)
                if number < len(self._files[place].pages)
            ]
        return [(place, page) for place, page in pages if page.is_quick]

    def news(self, seen: int, seconds: float) -> tuple[int, str]:
        """The state as JSON, when it is another than the one seen, or after so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen, seconds)
            return self._version, json.dumps([_data(file) for file in self._files])


def _data(file: LiveFile) -> dict[str, object]:
    pages = [
        {"block": page.block, "version": page.version, "begun": page.is_begun}
        for page in file.pages
    ]
    return {"name": file.name, "said": file.said, "failed": file.failed, "pages": pages}
