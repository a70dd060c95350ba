"""The interface of a layout engine: its name, its state on this machine, and how to run it."""

from __future__ import annotations

from collections.abc import Callable

from xg.diagnostics.lazy_dataclass import dataclass


class EngineError(Exception):
    """An engine is not there, or it failed on this problem; the message says which and why."""


class OutOfBudgetError(EngineError):
    """The time or memory for one figure is used up: another engine would fare no better."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A layout engine. `find` and `run` raise EngineError."""

    name: str
    find: Callable[[], str]  # its version, in words
    run: Callable[[str], str]  # DOT text -> Graphviz's json0
