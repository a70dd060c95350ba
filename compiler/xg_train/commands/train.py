"""`xg train`: train a diagram on text or arrays."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import (
    Effect,
    Rule,
    add_backend,
    add_file,
    add_kernels,
    add_ranks,
    add_threads,
    amount,
    has_plan_name,
    lacks,
    natural,
    on_processes,
    positive,
)
from xg.cli.console import Console
from xg.cli.exits import FINE, INTERRUPTED
from xg.codegen.backend import on_processes as process_backend

if TYPE_CHECKING:
    from xg_generate.runs import TrainingSetup
    from xg_runtime.train import Outcome
    from xg_train.loop import TrainingResult

EXAMPLE = "xg train transformer --set N_L=2 --set D=64 --steps 300 --sample 200"
ARRAYS: Final = (".npz", ".safetensors")
SHARDS: Final = ".bin"


def add_arguments(parser: ArgumentParser) -> None:
    """A file, its data, and the training options."""
    add_file(parser)
    _add_data(parser)
    _add_batches(parser)
    _add_learning(parser)
    _add_output(parser)
    add_threads(parser)
    add_backend(parser, device=True)
    add_kernels(parser)
    add_ranks(parser)


def _add_data(parser: ArgumentParser) -> None:
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data",
        metavar="PATH",
        type=Path,
        help="a text, an .npz file of rows, token shards ('shard_*.bin', with the quotes), "
        "or the folder of a saved Hugging Face dataset; default: the language reference "
        "bundled with Python",
    )
    data.add_argument(
        "--level",
        choices=("byte", "char"),
        default="byte",
        help="split a text into bytes or characters",
    )
    data.add_argument(
        "--tokenizer",
        metavar="FILE",
        type=Path,
        help="split a text with this tokenizer.json; the run keeps a copy",
    )
    data.add_argument(
        "--token-type",
        choices=("uint16", "uint32"),
        help="token type of shards without a header; nanoGPT's are uint16",
    )
    data.add_argument(
        "--seq",
        type=positive,
        metavar="N",
        help="tokens per window; default: 64",
    )


def _add_batches(parser: ArgumentParser) -> None:
    batches = parser.add_argument_group("batches")
    batches.add_argument(
        "--batch", type=positive, default=8, metavar="N", help="batch size; default: 8"
    )
    batches.add_argument(
        "--accumulate",
        type=positive,
        metavar="N",
        help="compute each batch in N parts, the microbatches of a pipeline; default: those "
        "of the plan's schedule, or 1",
    )
    batches.add_argument(
        "--pipeline-schedule",
        choices=("1F1B", "GPipe", "ZBH1"),
        help="the order in which pipeline stages take microbatches; gradients stay the same; "
        "default: the plan's, or 1F1B",
    )


def _add_learning(parser: ArgumentParser) -> None:
    learning = parser.add_argument_group("learning")
    learning.add_argument(
        "--steps", type=natural, default=300, metavar="N", help="training steps; default: 300"
    )
    learning.add_argument("--loss", metavar="NAME", help="the output to minimize")
    learning.add_argument(
        "--lr", type=amount, default=3e-3, metavar="X", help="learning rate; default: 0.003"
    )
    learning.add_argument(
        "--schedule",
        choices=("cosine", "linear", "constant"),
        default="cosine",
        help="the learning rate after the warmup; default: cosine",
    )
    learning.add_argument(
        "--warmup", type=natural, default=20, metavar="N", help="warmup steps; default: 20"
    )
    learning.add_argument(
        "--optimizer", choices=("adamw", "adam", "sgd"), default="adamw", help="default: adamw"
    )
    learning.add_argument(
        "--momentum", type=amount, default=0.9, metavar="X", help="momentum of sgd; default: 0.9"
    )
    learning.add_argument(
        "--weight-decay",
        type=amount,
        default=0.01,
        metavar="X",
        help="weight decay of adamw; default: 0.01",
    )
    learning.add_argument(
        "--clip",
        type=amount,
        default=1.0,
        metavar="X",
        help="clip gradients to this norm; 0 turns clipping off; default: 1",
    )
    learning.add_argument(
        "--eval", type=natural, default=50, metavar="N", help="validate every N steps; 0: never"
    )
    learning.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float32",
        help="type of parameters; default: float32",
    )
    products = "type of products with --backend torch; parameters and moments keep --dtype"
    learning.add_argument("--autocast", choices=("bfloat16",), help=products)
    learning.add_argument(
        "--seed",
        type=natural,
        default=0,
        metavar="N",
        help="seed for parameters, batches, dropout and the sample; default: 0",
    )


def _add_output(parser: ArgumentParser) -> None:
    out = parser.add_argument_group("output")
    out.add_argument(
        "--out", metavar="DIR", type=Path, help="folder of the run; default: runs/NAME"
    )
    out.add_argument(
        "--checkpoint", type=natural, default=100, metavar="N", help="save every N steps"
    )
    out.add_argument(
        "--checkpoint-format",
        choices=("safetensors", "dcp"),
        default="safetensors",
        help="xg's own files (safetensors), or files of torch.distributed.checkpoint (dcp), "
        "which torch loads on any number of ranks; --resume reads both",
    )
    out.add_argument(
        "--tensorboard",
        action="store_true",
        help="also write a log for TensorBoard: tensorboard --logdir runs",
    )
    out.add_argument("--resume", action="store_true", help="continue from the newest checkpoint")
    out.add_argument(
        "--overwrite", action="store_true", help="start again in a folder that has a run"
    )
    out.add_argument(
        "--sample", type=natural, default=0, metavar="N", help="write N tokens after training"
    )
    out.add_argument(
        "--prompt", default="The ", metavar="TEXT", help="begin the sample with this text"
    )
    out.add_argument(
        "--temperature",
        type=amount,
        default=0.8,
        metavar="X",
        help="temperature of the sample; 0 takes the likeliest token",
    )


def _of_text(options: Namespace) -> bool:
    return options.data is None or options.data.suffix not in ARRAYS


def _of_shards(options: Namespace) -> bool:
    return options.data is not None and options.data.suffix == SHARDS


def _optimizes(by: str) -> Effect:
    return lambda options: options.optimizer == by


RULES: Final = (
    Rule("--pipeline-schedule", has_plan_name, "needs a pipeline: add --plan NAME"),
    Rule("--tokenizer", _of_text, "splits a text, but --data has rows of arrays"),
    Rule("--level", _of_text, "splits a text, but --data has rows of arrays"),
    Rule(
        "--level",
        lacks("tokenizer"),
        "chooses bytes or characters, but --tokenizer has its own tokens",
    ),
    Rule(
        "--level",
        lambda options: not (_of_shards(options) or (options.data and options.data.is_dir())),
        "splits a text, but --data has tokens already",
    ),
    Rule("--token-type", _of_shards, "is for shards: use --data 'shard_*.bin'"),
    Rule("--seq", _of_text, "splits a text, but --data has rows of arrays"),
    Rule("--sample", _of_text, "continues a text, but --data has rows of arrays"),
    Rule("--timeout", on_processes, "is for ranks in processes: add --on processes"),
    Rule("--momentum", _optimizes("sgd"), "is for sgd: add --optimizer sgd"),
    Rule("--weight-decay", _optimizes("adamw"), "is for adamw: add --optimizer adamw"),
    Rule("--prompt", lambda options: options.sample > 0, "begins a sample: add --sample N"),
    Rule("--temperature", lambda options: options.sample > 0, "is for a sample: add --sample N"),
)


def run(options: Namespace, console: Console) -> int:
    """Train, say how it went, and write a sample if one is wanted."""
    from xg.cli.compiling import refuse_backend
    from xg_train.data import training_setup

    refuse_backend(options, "ranks" if options.plan else None)
    if options.checkpoint_format == "dcp":
        process_backend().require()  # the library of processes writes it: before any step
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
    from xg_train.loop import train_on_ranks

    learned = train_on_ranks(what, options, folder, console)
    if learned.outcome:
        console.say_lines(_report(what, learned.outcome))
        if options.sample and learned.interrupted is None:
            console.say()
            console.say(what.sample(learned.outcome.params, options))
    return learned


def _name(file: str) -> str:
    from xg.diagnostics.escape import slug

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
        step = [record["step"] for record in outcome.records if "validation" in record][-1]
        when = "" if step == outcome.steps else f" after step {step:.0f}"
        lines.append(f"validation loss {outcome.validation[-1]:.4f}{when}")
    lines += [f"{name} {value:.4f}" for name, value in what.references.items()]
    folder = outcome.folder
    return [*lines, f"curve {folder}/loss.svg, log {folder}/log.jsonl, {folder}/checkpoints"]
