"""The story of `xg demo`: twenty lines of text, and all that xg does with them."""

from __future__ import annotations

import os
import signal
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from xg.cli.console import Console
from xg.cli.dispatch import parse
from xg.cli.exits import FINE, INTERRUPTED, PROBLEM
from xg.cli.outputs import Outputs, TargetFolder, Wanted, outputs_of
from xg.cli.verification import by_default, gradient_lines, rank_lines
from xg.codegen.backend import backends
from xg.cost.table import align_columns
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.terminal import counted
from xg.frontend.project import Project, library_file, library_files, read_project
from xg.verify.gradient_proof import prove
from xg.verify.plan_proof import prove_ranks
from xg_runtime import files
from xg_runtime.errors import FileError
from xg_runtime.train import Outcome
from xg_train.data import training_setup
from xg_train.loop import train_on_ranks

# Build and prove shipped diagrams, and train one of them: `xg demo --all`.


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


NAME: Final = "guess"
TEXT: Final = """\
# A small language model: it reads one byte and guesses the next.
dim B, S, V = 256, D = 32, D_ff = 4*D
mesh N_T = 2

block MLP(X [B, S, D]) -> Y [B, S, D] {
    param W_up [D, D_ff], W_down [D_ff, D]

    X -> •<=W_up -> GELU : U [B, S, D_ff]
      -> •<=W_down       : Z [B, S, D]
      -> ⊕<-X            : Y
}

block Guess(ids [B, S] in V, t [B, S] in V) -> P [B, S, V], loss [] {
    param E [V, D]

    ids -> Emb(E) -> MLP -> •<=T(E) : P
      -> CE<-t                      : loss
}

plan TP of MLP {
    W_up   [D, D_ff/N_T]
    W_down [D_ff/N_T, D]
}
"""
STORY_STEPS: Final = 60
TRAINING: Final = ("--batch", "16", "--seq", "64", "--lr", "0.01", "--eval", "0", "--overwrite")
BARS: Final = "▁▂▃▄▅▆▇█"
COLUMNS: Final = 40  # of the curve of the losses


def tell(options: Namespace, console: Console) -> int:
    """Show every chapter of the story; returns the exit code."""
    return _Story(options, console).tell()


@dataclass(frozen=True, slots=True)
class _Story:
    """One text and all that xg does with it; each chapter is printed when it is done."""

    options: Namespace
    console: Console

    def tell(self) -> int:
        """Show every chapter; returns the exit code."""
        began = time.perf_counter()
        path = self._write_text()
        project = read_project(str(path))
        outputs = self._draw(project)
        self._show_code(outputs)
        proven = self._prove(project)
        outcome, entropy = self._train(path)
        if outcome.interrupted:
            self.console.note(f"xg demo: interrupted by {outcome.interrupted}")
            return INTERRUPTED
        beats = f"Guessing by how often each byte occurs would give {entropy:.2f}."
        self._show(f"loss  {_curve(outcome.losses)}", beats)
        self._chapter("A page in which each node shows its line, its cost and its numbers")
        self._show(str(self._folder / f"{NAME}.html"))
        self._end(path, time.perf_counter() - began)
        return FINE if proven and last_losses(outcome) < outcome.losses[0] else PROBLEM

    @property
    def _folder(self) -> Path:
        return self.options.folder

    def _chapter(self, title: str) -> None:
        self.console.say()
        self.console.say(f"\x1b[1m{title}\x1b[0m" if self.console.colored_results else title)

    def _show(self, *lines: str) -> None:
        """Print lines of a chapter; those with a verdict are colored."""
        self.console.judge_lines(
            f"  {each}".rstrip() for line in lines for each in line.split("\n")
        )

    def _write_text(self) -> Path:
        """Write the text, unless a reader has changed it since the last time."""
        path = self._folder / f"{NAME}.xg"
        text = TEXT.encode()
        if path.is_file() and files.read(path) != text:
            raise FileError(f"{path} has changed since the demo wrote it: choose another --out")
        files.write(path, text)
        self._chapter(f"A program: {path}")
        self._show(TEXT.rstrip())
        return path

    def _draw(self, project: Project) -> Outputs:
        """Draw the block, its derivative and its ranks; write the page and the code."""
        self.console.working("drawing")
        outputs = outputs_of(project, Wanted(kinds=("svg", "html", "numpy")))
        on_ranks = Wanted(kinds=("svg",), block="MLP", plan="TP", view="overview")
        ranks = outputs_of(project, on_ranks)
        TargetFolder(self._folder).write(
            {**outputs.files, **ranks.files}, sorted(outputs.engines | ranks.engines)
        )
        self._chapter("Its figures")
        rows = [
            (f"{NAME}_mlp.forward.svg", "the MLP, with a shape on every edge"),
            (f"{NAME}_mlp.backward.svg", "its backward pass, which xg derived"),
            (f"{NAME}_mlp_tp.overview.svg", "the MLP on two GPUs, by the plan TP"),
        ]
        self._show(*align_columns([(str(self._folder / name), what) for name, what in rows]))
        return outputs

    def _show_code(self, outputs: Outputs) -> None:
        name = f"{NAME}_numpy.py"
        self._chapter(f"Its code, one line per edge: {self._folder / name}")
        self._show(*_computing(outputs.files[name].decode()))

    def _prove(self, project: Project) -> bool:
        """Prove the gradients of the model, and the MLP on two ranks."""
        self.console.working("proving")
        proof = prove(project, "Guess", {}, 0)
        self._chapter("Its gradients, proven against finite differences")
        self._show(*_without_title(gradient_lines(NAME, {}, proof)))
        self.console.working("proving on two ranks")
        ranks = prove_ranks(project, "MLP", "TP", {}, 0)
        self._chapter("Two ranks, with the all-reduces that xg derived from the plan")
        self._show(*_without_title(rank_lines(NAME, {}, ranks)))
        return proof.passed and ranks.passed

    def _train(self, path: Path) -> tuple[Outcome, float]:
        """Train on the text that Python ships."""
        self._chapter("Training on the Python language reference")
        steps = str(self.options.steps or STORY_STEPS)
        chosen = parse("train", [str(path), "--block", "Guess", "--steps", steps, *TRAINING])
        what = training_setup(chosen)
        outcome = train_on_ranks(what, chosen, self._folder / "training", self.console).outcome
        assert outcome is not None
        return outcome, what.references["unigram entropy"]

    def _end(self, path: Path, seconds: float) -> None:
        self._chapter(f"All this took {counted(round(seconds), 'second')}. Three things to try:")
        rows = [
            (f"xg serve {path} --open", "change a line, save, and see the figure change"),
            ("xg new my_model", "start your own project"),
            ("xg demo --all", "build and prove every shipped diagram; this takes minutes"),
        ]
        self._show(*align_columns(rows))


def _computing(module: str) -> Iterator[str]:
    """Yield the lines of a module that compute the MLP, forward and backward."""
    shows = is_open = False
    for line in module.splitlines():
        if line.startswith(("def ", "class ")):
            shows = line.startswith(("def mlp(", "def d_mlp("))
            if line.startswith("def d_mlp("):
                yield ""
        quotes = line.startswith("    # ")
        makes = "  # [" in line and "params[" not in line
        if shows and (is_open or quotes or makes or line.startswith("def ")):
            yield line
            is_open = line.partition("  #")[0].endswith(" (") or (is_open and line != "    )")


def _without_title(lines: Iterable[str]) -> list[str]:
    """Return the lines of a proof without its title: the chapter names the block already."""
    return list(lines)[1:]


def _curve(losses: Sequence[float]) -> str:
    """Draw the losses in one line, between the first and the mean of the last.

    >>> _curve([4.0, 3.0, 2.0, 1.0])
    '4.00 █▆▃▁ 1.00'
    """
    size = -(-len(losses) // COLUMNS)
    means = [sum(part) / len(part) for part in _parts(losses, size)]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    drawn = "".join(BARS[round((mean - low) * scale)] for mean in means)
    return f"{losses[0]:.2f} {drawn} {means[-1]:.2f}"


def _parts(losses: Sequence[float], size: int) -> Iterator[Sequence[float]]:
    for start in range(0, len(losses), size):
        yield losses[start : start + size]
