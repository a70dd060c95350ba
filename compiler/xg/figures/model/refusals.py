"""The refusals of a page that a figure cannot be drawn on so that it is read."""

from math import ceil
from typing import Final

LEAST_SIZE: Final = 6.0  # points: smaller text is not read on paper


class TooNarrow(ValueError):
    """A page on which a figure's text would be too small; `inches` is a width that would do."""

    def __init__(self, title: str, least: float) -> None:
        super().__init__(f"text in {title} would be smaller than {LEAST_SIZE:g} points")
        self.inches = ceil(least / 72 * 10) / 10


class NotTurned(ValueError):
    """Ranks side by side, from left to right: their bars would be upright, their text too."""

    def __init__(self, title: str) -> None:
        super().__init__(f"ranks side by side run from the top down in {title}")
