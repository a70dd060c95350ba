"""The progress of a run: a bar on a terminal, otherwise a line every tenth of the way.

step  120/300  ━━━━━━━━──────────  loss 2.81  validation 2.90 at step 100  18.3k tokens/s  0:21 left

A validation loss from an earlier step names that step.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TextIO

_BAR: Final = 20
_REDRAW: Final = 0.1  # seconds
_PREFIXES: Final = ("", "k", "M", "G")
_LINES: Final = 10  # how many are written where there is no terminal


@dataclass
class Progress:
    """Reports steps `start` + 1 … `steps` to `stream`; `items` of `unit` are done in each."""

    stream: TextIO
    start: int
    steps: int
    items: int
    unit: str
    validation: float | None = None
    accuracy: float | None = None
    evaluated: int = 0  # the step that both were measured after
    _began: float = field(default_factory=time.perf_counter)
    _drawn: float = 0.0

    def show(self, step: int, loss: float) -> None:
        """Report that `step` is done, if it is time to."""
        now = time.perf_counter()
        if self.stream.isatty():
            if now - self._drawn >= _REDRAW or step == self.steps:
                self._drawn = now
                self.stream.write(f"\r{self._fit_line(step, loss, now)}\x1b[K")
                self.stream.flush()
        elif step % max(self.steps // _LINES, 1) == 0 or step == self.steps:
            self.stream.write(f"{self._line(step, loss, now, bar=False)}\n")
            self.stream.flush()

    def _fit_line(self, step: int, loss: float, now: float) -> str:
        """Return the line, cut to the terminal's width: no redraw erases a line that wraps."""
        columns = shutil.get_terminal_size().columns - 1  # behind the last one terminals wrap
        line = self._line(step, loss, now)
        if len(line) > columns:
            line = self._line(step, loss, now, bar=False)
        return line if len(line) <= columns else f"{line[: max(columns - 1, 0)]}…"

    def close(self) -> None:
        """Leave the bar's line."""
        if self._drawn:
            self.stream.write("\n")

    def speed(self, step: int) -> float:
        """Return items per second up to now, evaluation included."""
        passed = max(time.perf_counter() - self._began, 1e-9)
        return (step - self.start) * self.items / passed

    def _line(self, step: int, loss: float, now: float, *, bar: bool = True) -> str:
        width = len(str(self.steps))
        seconds_left = (self.steps - step) * (now - self._began) / max(step - self.start, 1)
        parts = [
            f"step {step:{width}}/{self.steps}",
            _bar(step / self.steps) if bar else "",
            f"loss {loss:.4f}",
            *self._evaluation(step),
            f"{_short(self.speed(step))} {self.unit}/s",
            f"{_clock(seconds_left)} left",
        ]
        return "  ".join(part for part in parts if part)

    def _evaluation(self, step: int) -> Iterator[str]:
        """Yield what validation gave, and after which step if that was an earlier one."""
        when = "" if self.evaluated == step else f" at step {self.evaluated}"
        if self.validation is not None:
            yield f"validation {self.validation:.4f}{when}"
        if self.accuracy is not None:
            yield f"accuracy {self.accuracy:.3f}{when}"


def _bar(part: float) -> str:
    done = round(part * _BAR)
    return "━" * done + "─" * (_BAR - done)


def _short(number: float) -> str:
    """Return three digits: 912, 1.23k, 18.3k, 1.02M.

    >>> [_short(x) for x in (9.3, 912.4, 1234, 18345, 999999, 1.02e6)]
    ['9.30', '912', '1.23k', '18.3k', '1.00M', '1.02M']
    """
    thousands = 0
    while number >= 999.5 and thousands < len(_PREFIXES) - 1:
        number /= 1000
        thousands += 1
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f}{_PREFIXES[thousands]}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
