"""`xg train`: a diagram trained on text, reviews or arrays."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from xg.cli.arguments import add_backend, add_file, add_kernels, refuse_backend, refuse_plan
from xg.cli.console import Console
from xg.cli.exits import FINE, INTERRUPTED
from xg.cli.quantities import amount, natural, positive
from xg.cli.threads import add_threads, limit_threads

if TYPE_CHECKING:
    from xg.cli.lesson import Lesson
    from xg_runtime.config import TrainConfig
    from xg_runtime.train import Outcome

EXAMPLE = "xg train diagrams/transformer.xg --steps 300 --sample 200"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, its data, and how it learns."""
    add_file(parser)
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        metavar="PATH",
        type=Path,
        help="a text, reviews (a label, a tab and a text a line), or an .npz of rows; default: the "
        "language reference of this Python, or the reviews that come along",
    )
    data.add_argument(
        "--level", choices=("byte", "char"), default="byte", help="of a text's tokens"
    )
    data.add_argument("--batch", type=positive, default=8, metavar="N", help="default: 8")
    data.add_argument(
        "--seq",
        type=positive,
        metavar="N",
        help="tokens in a window; default: 64; or words of a review",
    )
    _add_learning(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", type=Path, help="default: runs/NAME of the file")
    out.add_argument(
        "--checkpoint", type=natural, default=100, metavar="N", help="save every N steps"
    )
    out.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    out.add_argument("--overwrite", action="store_true", help="begin anew in a folder with a run")
    out.add_argument("--sample", type=natural, default=0, metavar="N", help="then write N tokens")
    out.add_argument("--prompt", default="The ", metavar="TEXT", help="what the sample begins with")
    out.add_argument(
        "--temperature",
        type=amount,
        default=0.8,
        metavar="X",
        help="of the sample; 0: the likeliest",
    )
    add_threads(parser)
    add_backend(parser)
    add_kernels(parser)


def _add_learning(parser: ArgumentParser) -> None:
    learning = parser.add_argument_group("learning")
    learning.add_argument("--steps", type=natural, default=300, metavar="N", help="default: 300")
    learning.add_argument("--loss", metavar="NAME", help="the output to make small")
    learning.add_argument("--lr", type=amount, default=3e-3, metavar="X", help="default: 0.003")
    learning.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="cosine")
    learning.add_argument(
        "--warmup", type=natural, default=20, metavar="N", help="steps; default: 20"
    )
    learning.add_argument("--optimizer", choices=("adamw", "adam", "sgd"), default="adamw")
    learning.add_argument(
        "--momentum", type=amount, default=0.9, metavar="X", help="of sgd; default: 0.9"
    )
    learning.add_argument(
        "--weight-decay", type=amount, default=0.01, metavar="X", help="of adamw; default: 0.01"
    )
    learning.add_argument(
        "--clip",
        type=amount,
        default=1.0,
        metavar="X",
        help="the largest gradient norm; 0: any; default: 1",
    )
    learning.add_argument(
        "--eval", type=natural, default=50, metavar="N", help="every N steps; 0: never"
    )
    learning.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    learning.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of first parameters, batches, dropout and the sample",
    )


def run(options: Namespace, console: Console) -> int:
    """Train, say how it went, and write a sample if one is wanted."""
    refuse_plan(options)
    refuse_backend(options)
    limit_threads(options.threads)
    what, outcome = learn(options, options.out or Path("runs") / _name(options.file), console)
    for line in _report(what, outcome):
        console.say(line)
    if options.sample and outcome.interrupted is None:
        console.say()
        console.say(what.sample(outcome.params, options))
    return INTERRUPTED if outcome.interrupted else FINE


def learn(options: Namespace, folder: Path, console: Console) -> tuple[Lesson, Outcome]:
    """Train in a folder; raises DiagnosticError and XgRuntimeError."""
    from xg.cli.recipe import Recipe
    from xg.cli.teaching import lesson
    from xg_runtime.checkpoint import exists

    what = lesson(options, folder)
    if not options.resume and (options.overwrite or not exists(folder)):
        Recipe.of(folder, options.file, options.block, what.settings).write(folder)
        what.leave(folder)
    outcome = _train(what, options, folder, console)
    what.leave(folder)  # a run that goes on may have lost it
    return what, outcome


def _train(what: Lesson, options: Namespace, folder: Path, console: Console) -> Outcome:
    """Train, and say of a number that is not finite where the file makes it."""
    from xg_runtime.errors import NonFiniteError
    from xg_runtime.train import train

    try:
        return train(
            what.module,
            what.source,
            _config(options, what.loss),
            folder,
            facts=what.facts,
            references=what.references,
            accuracy=what.judging and what.judging[1],
            resume="newest" if options.resume else None,
            overwrite=options.overwrite,
        )
    except NonFiniteError as error:
        place = what.place_of(error.tensor)
        if place:
            console.note(f"{error.tensor} is made in {place}")
        raise


def _name(file: str) -> str:
    from xg.slug import slug

    return "stdin" if file == "-" else slug(PurePath(file).stem)


def _config(options: Namespace, loss: str) -> TrainConfig:
    """The options of a run, in the words of the runtime."""
    from xg_runtime.config import TrainConfig

    return TrainConfig(
        steps=options.steps,
        rate=options.lr,
        schedule=options.schedule,
        warmup=options.warmup,
        optimizer=options.optimizer,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
        clip=options.clip or None,
        dtype=options.dtype,
        seed=options.seed,
        loss=loss,
        evaluate_every=options.eval,
        checkpoint_every=options.checkpoint,
    )


def _report(what: Lesson, outcome: Outcome) -> list[str]:
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
    if outcome.accuracies:
        lines.append(f"validation accuracy {outcome.accuracies[-1]:.4f}")
    lines += [f"{name} {value:.4f}" for name, value in what.references.items()]
    folder = outcome.folder
    return [*lines, f"curve {folder}/loss.svg, log {folder}/log.jsonl, {folder}/checkpoints"]
