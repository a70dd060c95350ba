"""`xg demo`: everything once, on the bundled diagrams."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xg.cli.arguments import Shipped, positive
from xg.cli.console import Console
from xg.cli.dispatch import parse
from xg.cli.exits import FINE, INTERRUPTED, PROBLEM
from xg.cli.render.table import aligned
from xg.codegen.backend import backends
from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.wording import counted
from xg.frontend.project import read_project
from xg.frontend.project.lookup import library_file, library_files

if TYPE_CHECKING:
    from xg.verify.gradient_proof import GradientProof
    from xg_runtime.train import Outcome

EXAMPLE = "xg demo"


def add_arguments(parser: ArgumentParser) -> None:
    """Where it goes, and how long it trains."""
    parser.add_argument(
        "-o",
        "--out",
        dest="folder",
        metavar="DIR",
        type=Path,
        default=Path("out/demo"),
        help="default: out/demo",
    )
    parser.add_argument(
        "--steps", type=positive, default=300, metavar="N", help="of training; default: 300"
    )
    parser.add_argument(
        "names",
        metavar="NAME",
        type=Shipped,
        nargs="*",
        help="some diagrams of the library; default: all",
    )
    parser.set_defaults(threads=None)


MODEL = "transformer"
SIZES = ("--set", "N_L=2", "--set", "D=64", "--batch", "16", "--seq", "64")
LEARNING = ("--lr", "0.01", "--overwrite")
SAMPLE = ("--sample", "200", "--prompt", "A class is ", "--temperature", "0.6")


@dataclass(frozen=True, slots=True)
class Shown:
    """The results for one diagram."""

    name: str
    files: tuple[Path, ...]
    proofs: tuple[GradientProof, ...]

    @property
    def passed(self) -> bool:
        """Whether every gradient was proven."""
        return all(proof.passed for proof in self.proofs)


def run(options: Namespace, console: Console) -> int:
    """Build, verify, train; end with a table and the pictures' paths."""
    began = time.perf_counter()
    names = options.names or _library()
    shown: list[Shown] = []
    for name in names:
        shown.append(_show(name, options.folder))
        console.note(f"{name}: {len(shown[-1].files)} files, {_gradients(shown[-1])}")
    outcome, entropy, text = _train(options, console)
    if outcome.interrupted:
        console.note(f"xg demo: interrupted by {outcome.interrupted}")
        return INTERRUPTED
    console.judge_all(_lines(shown, outcome, entropy))
    console.say(f"\nwhat it writes by now:\n{text}\n")
    console.say_all((*_pictures(shown), *_next(shown, outcome.folder, began)))
    learned = _last(outcome) < outcome.losses[0]
    return FINE if learned and all(each.passed for each in shown) else PROBLEM


def _library() -> list[str]:
    return [path.stem for path in library_files()]


def _show(name: str, folder: Path) -> Shown:
    """Write the figures and modules of one diagram, and prove its gradients."""
    from xg.cli.outputs import TargetFolder, Wanted, outputs_of
    from xg.cli.verification import by_default
    from xg.verify.gradient_proof import prove

    path = library_file(name) or Path(f"{name}.xg")
    project = read_project(path)
    outputs = outputs_of(
        project, Wanted(named=False)
    )  # of ranks by hand not every backend has a form
    TargetFolder(folder).write(outputs.files, sorted(outputs.engines))
    proofs = [prove(project, block, settings, 0) for block, settings in by_default(project, {})]
    return Shown(name, tuple(folder / file for file in outputs.files), tuple(proofs))


def _train(options: Namespace, console: Console) -> tuple[Outcome, float, str]:
    """Train the language model on text for a moment; also what it has to beat, and a sample."""
    from xg_train.data import training_setup
    from xg_train.loop import train_on_ranks

    words = [str(library_file(MODEL)), "--steps", str(options.steps), *SIZES, *LEARNING]
    words += SAMPLE
    chosen = parse("train", words)
    folder = options.folder / "training"
    what = training_setup(chosen)
    outcome = train_on_ranks(what, chosen, folder, console).outcome
    assert outcome is not None
    return outcome, what.references["unigram entropy"], what.sample(outcome.params, chosen)


def _gradients(shown: Shown) -> str:
    count = sum(len(proof.gradients.rows) for proof in shown.proofs)
    return f"{counted(count, 'gradient')} proven" if shown.passed else "gradients NOT proven"


def _lines(shown: Sequence[Shown], outcome: Outcome, entropy: float) -> Iterator[str]:
    rows = [("diagram", "files", "gradients", "largest error", "")]
    for each in shown:
        gradient_rows = [row for proof in each.proofs for row in proof.gradients.rows]
        worst = max((row.error for row in gradient_rows), default=0.0)
        verdict = "proven" if each.passed else "FAILED"
        rows.append(
            (each.name, str(len(each.files)), str(len(gradient_rows)), f"{worst:.1e}", verdict)
        )
    yield ""
    yield from aligned(rows, frozenset({1, 2, 3}))
    yield ""
    yield f"training {MODEL}: {outcome.steps} steps, {outcome.speed:,.0f} tokens/s"
    yield f"loss {outcome.losses[0]:.3f} at first, {_last(outcome):.3f} over the last steps"
    yield f"validation loss {outcome.validation[-1]:.3f}"
    yield f"unigram entropy of the text {entropy:.3f}: knowing only how often each byte occurs"


def _last(outcome: Outcome) -> float:
    """The mean loss of the last ten steps."""
    last = outcome.losses[-10:]
    return sum(last) / len(last)


def _pictures(shown: Sequence[Shown]) -> Iterator[str]:
    """The files that were written, a line for each diagram."""
    yield "of each picture .svg, .pdf, .png, .tex and .dot:"
    for each in shown:
        yield f"  {', '.join(path.stem for path in each.files if path.suffix == '.svg')}"
    modules = [path.name for each in shown for path in each.files if path.suffix == ".py"]
    *titles, last = (each.title for each in backends().values())
    named = ", ".join(modules[-len(titles) - 1 :])
    yield f"beside them {len(modules)} modules, in {', '.join(titles)} and {last}: {named}, …"
    yield ""


def _next(shown: Sequence[Shown], training: Path, began: float) -> Iterator[str]:
    """The last five lines: where everything is, and what to type next."""
    folder = training.parent
    one = next((each for each in shown if each.name == MODEL), shown[0])
    page = next(path.name for path in one.files if path.suffix == ".html")
    yield f"pictures and code: {folder} ({time.perf_counter() - began:.0f} seconds)"
    yield f"open in a browser: {folder / page}, and {training / 'loss.svg'}"
    yield f"more text:         xg generate {training}"
    yield f"a diagram, live:   xg serve {one.name} --open"
    yield "one of your own:   xg new my_model"
