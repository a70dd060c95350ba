"""Options that say nothing beside the other words of a command: they are refused, not ignored."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Final

from xg.codegen.backend import backends
from xg.diagnostics.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """An option of some commands, when it has an effect, and what it needs for one."""

    commands: tuple[str, ...]
    option: str
    has_effect: Callable[[Namespace], bool]
    needs: str


def _draws(options: Namespace) -> bool:
    return options.kinds is None or bool({*options.kinds} - {*backends()})


def _codes(options: Namespace) -> bool:
    return options.kinds is None or bool({*options.kinds} & {*backends()})


def _on_processes(options: Namespace) -> bool:
    return options.on == "processes"


RULES: Final = (
    Rule(("build",), "--kernels", _codes, f"changes code: --only {','.join(backends())}"),
    Rule(("build",), "--theme", _draws, "colours figures: --only svg"),
    Rule(("build",), "--legend", _draws, "is a part of figures: --only svg"),
    Rule(
        ("run", "verify", "train"),
        "--timeout",
        _on_processes,
        "is for ranks that are processes: --on processes",
    ),
    Rule(
        ("run",),
        "--names",
        lambda options: options.params is not None,
        "says what the tensors of a checkpoint are: --params FILE",
    ),
    Rule(
        ("train",),
        "--momentum",
        lambda options: options.optimizer == "sgd",
        "is for --optimizer sgd",
    ),
    Rule(
        ("train",),
        "--weight-decay",
        lambda options: options.optimizer == "adamw",
        "is for --optimizer adamw",
    ),
    Rule(("train",), "--prompt", lambda options: options.sample > 0, "begins a --sample"),
    Rule(("train",), "--temperature", lambda options: options.sample > 0, "is for a --sample"),
    Rule(
        ("generate",),
        "--top-k",
        lambda options: options.temperature > 0,
        "chooses among drawn tokens: --temperature above 0",
    ),
    Rule(
        ("generate",),
        "--top-p",
        lambda options: options.temperature > 0,
        "chooses among drawn tokens: --temperature above 0",
    ),
)


def without_effect(name: str, options: Namespace) -> str | None:
    """The complaint about the first option of a command that has no effect, if any."""
    written = {word.partition("=")[0] for word in options.words}
    for rule in RULES:
        if name in rule.commands and rule.option in written and not rule.has_effect(options):
            return f"xg {name}: {rule.option} {rule.needs}"
    return None
