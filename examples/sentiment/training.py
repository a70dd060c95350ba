"""Train a classifier on labeled reviews."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from examples.sentiment import lexicon, reviews
from examples.sentiment.accuracy import BinaryAccuracy
from examples.sentiment.batches import ReviewSource
from examples.sentiment.lexicon import Lexicon
from examples.sentiment.model import LOSS, Classifier, ModelConfig, compiled
from examples.sentiment.reviews import Reviews
from xg_runtime import files
from xg_runtime.config import TrainConfig
from xg_runtime.errors import InputError
from xg_runtime.train import Outcome, check_free, train

HERE: Final = Path(__file__).parent
REVIEWS: Final = HERE / "reviews.txt"
DIAGRAM: Final = HERE.parents[1] / "diagrams" / "examples" / "sentiment.xg"
LEXICON: Final = "lexicon.safetensors"  # in the folder of a run
CHANCE: Final = "always the same"
AVERAGED: Final = 10  # last steps, for the loss of the report
WARMUP: Final = 20  # steps
INTERRUPTED: Final = 130  # exit code: by Ctrl-C, as shells count


def add_arguments(parser: ArgumentParser) -> None:
    """Add the model, its data, and how it is trained: by default as the article has it."""
    parser.add_argument("--diagram", metavar="FILE", default=str(DIAGRAM), help="of the model")
    parser.add_argument("--block", metavar="NAME", help="default: the last one of the file")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="a size or an option of the diagram; repeatable",
    )
    parser.add_argument("--logits", action="store_true", help="the output is no probability yet")
    parser.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        default=REVIEWS,
        help="lines of a label, a tab and a text; default: the reviews of this example",
    )
    parser.add_argument("--steps", type=int, default=800, metavar="N", help="default: 800")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="default: 32")
    parser.add_argument("--lr", type=float, default=1e-3, metavar="X", help="default: 0.001")
    parser.add_argument("--schedule", choices=("cosine", "linear", "constant"), default="cosine")
    parser.add_argument("--eval", type=int, default=100, metavar="N", help="every N steps")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("runs/sentiment"))
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    parser.add_argument("--overwrite", action="store_true", help="replace the run in the folder")


def run(options: Namespace) -> int:
    """Train and report how it ended; returns the exit code.

    Raises DiagnosticError, XgRuntimeError.
    """
    config = _config(options)
    classifier = compiled(config)
    data = reviews.load(options.data)
    words = _lexicon(data, classifier.width, options)
    if not options.resume:
        check_free(options.out, overwrite=options.overwrite)
        config.write(options.out)
        files.write(options.out / LEXICON, words.packed)
    outcome = train(
        classifier.program.on_arrays(),
        _source(classifier, data, words, options),
        _training(options),
        options.out,
        facts={"program": classifier.sha256},
        references={"label entropy": data.entropy},
        accuracy=_accuracy(classifier, data),
        resume="newest" if options.resume else None,
        overwrite=options.overwrite,
        frozen=classifier.program.frozen,
    )
    if options.resume:
        files.write(options.out / LEXICON, words.packed)  # the run may have lost it
    print("\n".join(_report(outcome, data)))
    return INTERRUPTED if outcome.interrupted else 0


def _config(options: Namespace) -> ModelConfig:
    """The diagram that the options name, with its sizes and options."""
    settings = dict(_setting(text) for text in options.settings)
    sizes = {name: int(value) for name, value in settings.items() if value.isdecimal()}
    words = {name: value for name, value in settings.items() if name not in sizes}
    return ModelConfig(options.diagram, options.block, sizes, words, options.logits)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(f"--set {text}: NAME=VALUE is expected")
    return name, value


def _lexicon(data: Reviews, width: int, options: Namespace) -> Lexicon:
    """The words of the training reviews; a run that is resumed has its own."""
    path = options.out / LEXICON
    if options.resume and path.exists():
        return lexicon.read(path)
    return lexicon.lexicon_of(reviews.split(data)[0].texts, width)


def _source(
    classifier: Classifier, data: Reviews, words: Lexicon, options: Namespace
) -> ReviewSource:
    return ReviewSource(
        data,
        words,
        classifier.length,
        batch_size=options.batch,
        target=classifier.truth_axes,
        inputs=(classifier.vectors, classifier.truth),
        seed=options.seed,
    )


def _training(options: Namespace) -> TrainConfig:
    return TrainConfig(
        steps=options.steps,
        rate=options.lr,
        schedule=options.schedule,
        warmup=WARMUP,
        seed=options.seed,
        loss=LOSS,
        evaluate_every=options.eval,
    )


def _accuracy(classifier: Classifier, data: Reviews) -> BinaryAccuracy:
    """How many reviews are classified rightly, compared with giving all the same label."""
    chances = {CHANCE: reviews.split(data)[1].majority}
    return BinaryAccuracy(classifier.output, classifier.truth, classifier.threshold, chances)


def _report(outcome: Outcome, data: Reviews) -> list[str]:
    """How a run ended, in a few lines."""
    lines = [f"{outcome.steps} steps, {outcome.speed:,.0f} {outcome.unit}/s"]
    if outcome.interrupted:
        lines[0] += f", interrupted by {outcome.interrupted}: --resume goes on"
    if outcome.losses:
        last = outcome.losses[-AVERAGED:]
        mean = sum(last) / len(last)
        lines.append(f"loss {outcome.losses[0]:.4f} at first, {mean:.4f} over the last {len(last)}")
    if outcome.validation:
        lines.append(f"validation loss {outcome.validation[-1]:.4f}")
        lines.append(f"validation accuracy {outcome.accuracies[-1]:.4f}")
    folder = outcome.folder
    lines.append(f"label entropy {data.entropy:.4f}")
    return [*lines, f"curve {folder}/loss.svg, log {folder}/log.jsonl, {folder}/checkpoints"]
