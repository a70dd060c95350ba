"""`xg generate`: text from a model, published or trained here."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import (
    add_backend,
    add_choice,
    add_kernels,
    add_names,
    open_project,
    refuse_backend,
    refuse_plan,
)
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.cli.quantities import amount, natural, positive
from xg.cli.training.threads import add_threads, limit_threads

if TYPE_CHECKING:
    from xg.cli.writer import Writer
    from xg_runtime.tokens import Vocabulary

EXAMPLE = "xg generate runs/transformer --prompt 'The ' --tokens 400 --temperature 0.8"
TOKENIZER: Final = "tokenizer.json"
BYTES: Final = "bytes"


def add_arguments(parser: ArgumentParser) -> None:
    """A model, what it begins with, and how its tokens are drawn."""
    parser.add_argument(
        "file", metavar="FILE", help="an .xg file with --weights, or the folder of a run"
    )
    add_choice(parser)
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="W",
        help=".safetensors or .npz of the diagram's parameters, or a published checkpoint",
    )
    add_names(parser)
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        help="a tokenizer.json, or bytes; default: the tokenizer.json beside the weights",
    )
    parser.add_argument(
        "--prompt", default="The ", metavar="TEXT", help="what the text begins with"
    )
    parser.add_argument(
        "--tokens", type=natural, default=200, metavar="N", help="at most; default: 200"
    )
    _add_drawing(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="read the whole text again for each token"
    )
    parser.add_argument("--window", type=positive, metavar="N", help="of a longer text see the end")
    parser.add_argument(
        "--dtype", choices=("float32", "float64"), default="float32", help="of --weights"
    )
    run = parser.add_argument_group("of a run")
    run.add_argument("--diagram", metavar="FILE", help="where the .xg file is now, if it was moved")
    run.add_argument(
        "--previous", action="store_true", help="from the checkpoint before the newest"
    )
    add_threads(parser)
    add_backend(parser)
    add_kernels(parser)


def _add_drawing(parser: ArgumentParser) -> None:
    drawing = parser.add_argument_group("drawing")
    drawing.add_argument(
        "--temperature",
        type=amount,
        default=0.8,
        metavar="X",
        help="1: as the model says; less: more careful; 0: the likeliest; default: 0.8",
    )
    drawing.add_argument(
        "--top-k", type=positive, metavar="N", help="draw among the N likeliest; default: all"
    )
    drawing.add_argument(
        "--top-p", type=share, metavar="X", help="draw among the likeliest with this share"
    )
    drawing.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another one, another text"
    )
    drawing.add_argument("--stop", metavar="TOKEN", help="a token at which the text ends")


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    number = amount(text)
    if not 0 < number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share, above 0 and at most 1")
    return number


def run(options: Namespace, console: Console) -> int:
    """Write text as it comes, then say how fast."""
    refuse_plan(options)
    refuse_backend(options)
    limit_threads(options.threads)
    is_run = Path(options.file).is_dir()
    if (
        not is_run
        and options.weights is None
        and (options.file == "-" or Path(options.file).exists())
    ):
        console.note("xg generate: a diagram has no parameters: --weights names a file with them")
        return USAGE
    if is_run and (options.settings or options.block or options.tokenizer or options.weights):
        console.note(f"xg generate: {options.file} is a run, which says itself what was trained")
        return USAGE
    writer, stop = _trained(options) if is_run else _published(options)
    _write(writer, stop, options, console)
    return FINE


def _write(writer: Writer, stop: tuple[int, ...], options: Namespace, console: Console) -> None:
    """Print the prompt, each piece as soon as it is known, and the speed."""
    from xg.cli.writer import shown
    from xg_runtime.sample import Sampling
    from xg_runtime.stream import Timed, pieces

    how = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    ids = writer.codec.encode(options.prompt.encode())
    timed = Timed(writer.tokens(ids, options.tokens, how, stop))
    waiting = shown(options.prompt)  # until the model is known to go on
    for piece in pieces(timed, writer.codec, ids):
        console.stream(waiting + shown(piece))
        waiting = ""
    console.say(waiting)
    console.note(timed.report(len(ids)))


def _trained(options: Namespace) -> tuple[Writer, tuple[int, ...]]:
    """The model of a run, and the tokens at which it stops."""
    from xg.cli.training.load_run import Trained
    from xg.cli.writer import Writer

    held = Trained.read(Path(options.file), diagram=options.diagram, previous=options.previous)
    window = min(options.window or held.window, held.window)
    writer = Writer(
        held.program,
        held.params,
        held.vocabulary,
        window,
        backend=options.backend,
        cached=not options.no_cache,
        kernels=options.kernels,
    )
    return writer, _stop(options, held.vocabulary) if options.stop else ()


def _published(options: Namespace) -> tuple[Writer, tuple[int, ...]]:
    """A diagram with parameters from a file, and the tokens at which it stops."""
    from xg.cli.input_arrays import expected
    from xg.cli.published import Published
    from xg.cli.writer import Writer
    from xg_runtime.expect import fit
    from xg_runtime.tokenizer import Tokenizer, ends
    from xg_runtime.tokens import ByteVocabulary

    project = open_project(options.file)
    found = Published.read(project, options, options.weights)
    program = found.program
    params = fit(found.params, expected(program.params), dtype=options.dtype, source=found.source)
    codec = ByteVocabulary() if options.tokenizer == BYTES else Tokenizer.read(_tokenizer(options))
    writer = Writer(
        program,
        params,
        codec,
        options.window,
        backend=options.backend,
        cached=not options.no_cache,
        kernels=options.kernels,
    )
    if not options.stop:
        return writer, ends(_beside(options))
    named = isinstance(codec, Tokenizer)
    return writer, (codec.token(options.stop),) if named else _stop(options, codec)


def _stop(options: Namespace, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The token that `--stop` means; raises InputError where it is several."""
    from xg_runtime.errors import InputError

    (token, *others) = vocabulary.encode(options.stop.encode()).tolist()
    if others:
        raise InputError(f"--stop {options.stop!r} is {len(others) + 1} tokens of this model")
    return (token,)


def _beside(options: Namespace) -> Path:
    weights: Path = options.weights
    return weights if weights.is_dir() else weights.parent


def _tokenizer(options: Namespace) -> Path:
    """The tokenizer that is named, or that stands beside the weights."""
    from xg_runtime.errors import InputError

    if options.tokenizer:
        return Path(options.tokenizer)
    beside = _beside(options) / TOKENIZER
    if not beside.is_file():
        raise InputError(
            f"nothing says what the tokens are: --tokenizer names a {TOKENIZER}, or {BYTES}"
        )
    return beside
