"""Build and prove shipped diagrams, and train one of them: `xg demo --all`."""

from __future__ import annotations

import os
import signal
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from xg.cli.console import Console
from xg.cli.dispatch import parse
from xg.cli.exits import FINE, INTERRUPTED, PROBLEM
from xg.cli.outputs import TargetFolder, Wanted, outputs_of
from xg.cli.verification import by_default
from xg.codegen.backend import backends
from xg.cost.table import align_columns
from xg.diagnostics.terminal import counted
from xg.frontend.project import read_project
from xg.frontend.project.lookup import library_file, library_files
from xg.verify.gradient_proof import prove
from xg_runtime.train import Outcome
from xg_train.data import training_setup
from xg_train.loop import train_on_ranks

MODEL = "transformer"
SIZES = ("--set", "N_L=2", "--set", "D=64", "--batch", "16", "--seq", "64")
LEARNING = ("--lr", "0.01", "--overwrite")
SAMPLE = ("--sample", "200", "--prompt", "A class is ", "--temperature", "0.6")
STEPS = 300
NAMED_MODULES = 6  # that the last lines name; more are counted


class Built(NamedTuple):
    """The files of one diagram, and the proof of its gradients, as another process returns them."""

    name: str
    files: dict[str, bytes]
    engines: list[str]
    gradients: int
    error: float
    passed: bool


def show_gallery(options: Namespace, console: Console) -> int:
    """Build, verify, train; end with a table and the pictures' paths."""
    began = time.perf_counter()
    folder: Path = options.folder
    names = options.names or [path.stem for path in library_files()]
    shown: list[Built] = []
    for built in _build_diagrams(names):
        TargetFolder(folder).write(built.files, built.engines)
        shown.append(built)
        console.note(f"{built.name}: {len(built.files)} files, {_gradients(built)}")
    outcome, entropy, text = _train(options, console)
    if outcome.interrupted:
        console.note(f"xg demo: interrupted by {outcome.interrupted}")
        return INTERRUPTED
    console.judge_lines(_lines(shown, outcome, entropy))
    console.say(f"\nwhat it writes now:\n{text}\n")
    console.say_lines((*_pictures(shown), *_next(shown, folder, outcome.folder, began)))
    learned = last_losses(outcome) < outcome.losses[0]
    return FINE if learned and all(each.passed for each in shown) else PROBLEM


def _build_diagrams(names: Sequence[str]) -> Iterator[Built]:
    """Build every diagram, on all cores if there are several; in their order."""
    cores = min(os.cpu_count() or 1, len(names))
    if cores == 1:
        yield from map(_build, names)
        return
    # A pool ends its processes on Ctrl-C, instead of waiting for minutes of work.
    with get_context("spawn").Pool(cores, _leave_interrupts) as pool:
        yield from pool.imap(_build, names)


def _leave_interrupts() -> None:
    """Let the first process alone answer Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _build(name: str) -> Built:
    """Make the figures and modules of one diagram, and prove its gradients."""
    project = read_project(library_file(name) or Path(f"{name}.xg"))
    # Unnamed kinds: not every backend writes modules for the ranks of a program.
    outputs = outputs_of(project, Wanted(named=False))
    proofs = [prove(project, block, settings, 0) for block, settings in by_default(project, {})]
    errors = [row.error for proof in proofs for row in proof.gradients.rows]
    return Built(
        name,
        outputs.files,
        sorted(outputs.engines),
        len(errors),
        max(errors, default=0.0),
        all(proof.passed for proof in proofs),
    )


def _train(options: Namespace, console: Console) -> tuple[Outcome, float, str]:
    """Train the language model for a moment; also return what it has to beat, and a sample."""
    steps = str(options.steps or STEPS)
    words = [str(library_file(MODEL)), "--steps", steps, *SIZES, *LEARNING, *SAMPLE]
    chosen = parse("train", words)
    what = training_setup(chosen)
    outcome = train_on_ranks(what, chosen, options.folder / "training", console).outcome
    assert outcome is not None
    return outcome, what.references["unigram entropy"], what.sample(outcome.params, chosen)


def _gradients(built: Built) -> str:
    proven = "proven" if built.passed else "NOT proven"
    return f"{counted(built.gradients, 'gradient')} {proven}"


def _lines(shown: Sequence[Built], outcome: Outcome, entropy: float) -> Iterator[str]:
    rows = [("diagram", "files", "gradients", "largest error", "")]
    for each in shown:
        verdict = "proven" if each.passed else "FAILED"
        counts = str(len(each.files)), str(each.gradients)
        rows.append((each.name, *counts, f"{each.error:.1e}", verdict))
    yield ""
    yield from align_columns(rows, frozenset({1, 2, 3}))
    yield ""
    yield f"training {MODEL}: {outcome.steps} steps, {outcome.speed:,.0f} tokens/s"
    yield f"loss {outcome.losses[0]:.3f} at first, {last_losses(outcome):.3f} over the last steps"
    yield f"validation loss {outcome.validation[-1]:.3f}"
    yield f"unigram entropy of the text {entropy:.3f}: knowing only how often each byte occurs"


def last_losses(outcome: Outcome) -> float:
    """Return the mean loss of the last ten steps."""
    last = outcome.losses[-10:]
    return sum(last) / len(last)


def _pictures(shown: Sequence[Built]) -> Iterator[str]:
    """Name the files that were written, in a line for each diagram."""
    yield "each picture as .svg, .pdf, .png, .tex and .dot:"
    for each in shown:
        stems = [name.removesuffix(".svg") for name in each.files if name.endswith(".svg")]
        yield f"  {', '.join(stems)}"
    modules = [name for each in shown for name in each.files if name.endswith(".py")]
    *titles, last = (each.title for each in backends().values())
    few = modules if len(modules) <= NAMED_MODULES else [*modules[:NAMED_MODULES], "…"]
    count = counted(len(modules), "module")
    yield f"and {count}, in {', '.join(titles)} and {last}: {', '.join(few)}"
    yield ""


def _next(shown: Sequence[Built], folder: Path, training: Path, began: float) -> Iterator[str]:
    """Say where everything is, and what to type next."""
    one = next((each for each in shown if each.name == MODEL), shown[0])
    page = next(name for name in one.files if name.endswith(".html"))
    yield f"pictures and code: {folder} ({time.perf_counter() - began:.0f} seconds)"
    yield f"open in a browser: {folder / page}, and {training / 'loss.svg'}"
    yield f"more text:         xg generate {training}"
    yield f"a diagram, live:   xg serve {one.name} --open"
    yield "one of your own:   xg new my_model"
