"""`xg train`: train a diagram on text or arrays."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path, PurePath

from xg.cli.compiling import refuse_backend
from xg.cli.console import Console
from xg.cli.exits import FINE, INTERRUPTED
from xg.codegen.backend import on_processes
from xg.diagnostics.escape import slug
from xg_generate.runs.setup import TrainingSetup
from xg_runtime.train import Outcome
from xg_train.data import training_setup
from xg_train.loop import TrainingResult, train_on_ranks


def run(options: Namespace, console: Console) -> int:
    """Train, say how it went, and write a sample if one is wanted."""
    refuse_backend(options, "ranks" if options.plan else None)
    if options.checkpoint_format == "dcp":
        on_processes().require()  # the library of processes writes it: before any step
    folder = folder_of(options)
    learned = train_in_folder(training_setup(options), options, folder, console)
    return INTERRUPTED if learned.interrupted else FINE


def folder_of(options: Namespace) -> Path:
    """Where the run is kept."""
    return options.out or Path("runs") / _name(options.file)


def train_in_folder(
    what: TrainingSetup, options: Namespace, folder: Path, console: Console
) -> TrainingResult:
    """Train, and let the rank that leads say how it went."""
    learned = train_on_ranks(what, options, folder, console)
    if learned.outcome:
        console.say_all(_report(what, learned.outcome))
        if options.sample and learned.interrupted is None:
            console.say()
            console.say(what.sample(learned.outcome.params, options))
    return learned


def _name(file: str) -> str:
    return "stdin" if file == "-" else slug(PurePath(file).stem)


def _report(what: TrainingSetup, outcome: Outcome) -> list[str]:
    """How a run ended, in a few lines."""
    lines = [f"{outcome.steps} steps"]
    if outcome.speed:
        lines[0] += f", {outcome.speed:,.0f} {outcome.unit}/s"
    if outcome.interrupted:
        lines[0] += f", interrupted by {outcome.interrupted}: --resume goes on"
    if outcome.losses:
        last = outcome.losses[-min(10, len(outcome.losses)) :]
        mean = sum(last) / len(last)
        lines.append(f"loss {outcome.losses[0]:.4f} at first, {mean:.4f} over the last {len(last)}")
    if outcome.validation:
        lines.append(f"validation loss {outcome.validation[-1]:.4f}")
    lines += [f"{name} {value:.4f}" for name, value in what.references.items()]
    folder = outcome.folder
    return [*lines, f"curve {folder}/loss.svg, log {folder}/log.jsonl, {folder}/checkpoints"]
