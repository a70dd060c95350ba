"""Options that say nothing beside the other words of a command: they are refused, not ignored."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable

from xg.diagnostics.lazy_dataclass import dataclass

Effect = Callable[[Namespace], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """An option, when it has an effect, and what it needs for one.

    The module with the arguments of a command has the `RULES` of its options.
    """

    option: str
    has_effect: Effect
    needs: str


def on_processes(options: Namespace) -> bool:
    """Whether ranks are processes."""
    return options.on == "processes"


def is_placed(options: Namespace) -> bool:
    """Whether one plan is named, which may have a pipeline: its action looks whether it has."""
    return options.plan not in (None, "*")


def gives(*names: str) -> Effect:
    """Where one of these options is given."""
    return lambda options: any(getattr(options, name) is not None for name in names)


def lacks(name: str) -> Effect:
    """Where an option is not given."""
    return lambda options: getattr(options, name) is None


def without_effect(name: str, rules: Iterable[Rule], options: Namespace) -> str | None:
    """The complaint about the first option of a command that has no effect, if any."""
    written = {word.partition("=")[0] for word in options.words}
    for rule in rules:
        if rule.option in written and not rule.has_effect(options):
            return f"xg {name}: {rule.option} {rule.needs}"
    return None
