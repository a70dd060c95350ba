"""`xg train`: a diagram trained on text or arrays."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from xg.cli.arguments import add_backend, add_file, refuse_backend, refuse_plan
from xg.cli.console import Console
from xg.cli.exits import FINE, INTERRUPTED

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
        help="a text, or an .npz of rows; default: the language reference of this Python",
    )
    data.add_argument(
        "--level", choices=("byte", "char"), default="byte", help="of a text's tokens"
    )
    data.add_argument("--batch", type=_positive, default=8, metavar="N", help="default: 8")
    data.add_argument("--seq", type=_positive, metavar="N", help="tokens in a window; default: 64")
    _add_learning(parser)
    out = parser.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", type=Path, help="default: runs/NAME of the file")
    out.add_argument(
        "--checkpoint", type=_natural, default=100, metavar="N", help="save every N steps"
    )
    out.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    out.add_argument("--overwrite", action="store_true", help="begin anew in a folder with a run")
    out.add_argument("--sample", type=_natural, default=0, metavar="N", help="then write N tokens")
    out.add_argument("--prompt", default="The ", metavar="TEXT", help="what the sample begins with")
    out.add_argument(
        "--temperature", type=float, default=0.8, help="of the sample; 0: the likeliest"
    )
    add_backend(parser)


def _add_learning(parser: ArgumentParser) -> None:
    learning = parser.add_argument_group("learning")
    learning.add_argument("--steps", type=_natural, default=300, metavar="N", help="default: 300")
    learning.add_argument("--lr", type=float, default=3e-3, metavar="X", help="default: 0.003")
    learning.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="cosine")
    learning.add_argument("--warmup", type=_natural, default=20, metavar="N", help="steps")
    learning.add_argument("--optimizer", choices=("adamw", "adam", "sgd"), default="adamw")
    learning.add_argument("--weight-decay", type=float, default=0.01, metavar="X", help="of adamw")
    learning.add_argument(
        "--clip", type=float, default=1.0, metavar="X", help="gradient norm; 0: off"
    )
    learning.add_argument(
        "--eval", type=_natural, default=50, metavar="N", help="every N steps; 0: never"
    )
    learning.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    learning.add_argument("--seed", type=int, default=0)


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if _natural(text) == 0:
        raise ArgumentTypeError("at least 1")
    return int(text)


def run(options: Namespace, console: Console) -> int:
    """Train, say how it went, and write a sample if one is wanted."""
    from xg.cli.lesson import lesson
    from xg_runtime.errors import NonFiniteError
    from xg_runtime.train import train

    refuse_plan(options)
    refuse_backend(options)
    what = lesson(options)
    folder = options.out or Path("runs") / _name(options.file)
    try:
        outcome = train(
            what.module,
            what.source,
            config_of(options, what.loss),
            folder,
            facts=what.facts,
            references=what.references,
            resume="newest" if options.resume else None,
            overwrite=options.overwrite,
        )
    except NonFiniteError as error:
        place = what.place_of(error.tensor)
        console.note(f"{error.tensor} is made in {place}" if place else "")
        raise
    for line in _report(what, outcome):
        console.say(line)
    if options.sample and outcome.interrupted is None:
        console.say()
        console.say(what.sample(outcome.params, options))
    return INTERRUPTED if outcome.interrupted else FINE


def _name(file: str) -> str:
    from xg.slug import slug

    return "stdin" if file == "-" else slug(PurePath(file).stem)


def config_of(options: Namespace, loss: str) -> TrainConfig:
    """The options of a run, in the words of the runtime."""
    from xg_runtime.config import TrainConfig

    return TrainConfig(
        steps=options.steps,
        rate=options.lr,
        schedule=options.schedule,
        warmup=min(options.warmup, options.steps),
        optimizer=options.optimizer,
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
    lines += [f"{name} {value:.4f}" for name, value in what.references.items()]
    folder = outcome.folder
    return [*lines, f"curve {folder}/loss.svg, log {folder}/log.jsonl, {folder}/checkpoints"]
