"""`xg generate`: text from a model, published or trained here."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xg.cli.arguments import (
    Diagram,
    FileOrName,
    Rule,
    add_backend,
    add_choice,
    add_kernels,
    add_names,
    add_threads,
    amount,
    natural,
    positive,
    where,
)
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.diagnostics.terminal import printable

if TYPE_CHECKING:
    from xg_generate.runs import Writer
    from xg_runtime.tokens import Vocabulary

EXAMPLE = (
    "xg train transformer --set N_L=2 --set D=64 --steps 300\n"
    "xg generate runs/transformer --prompt 'The ' --tokens 200"
)


def add_arguments(parser: ArgumentParser) -> None:
    """A model, what it begins with, and how its tokens are drawn."""
    parser.add_argument(
        "file",
        metavar="FILE",
        type=Diagram,
        help="the folder of a run, or an .xg file with --weights",
    )
    add_choice(parser, plans=False)
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="W",
        help="the diagram's parameters (.safetensors or .npz), or a published checkpoint",
    )
    add_names(parser)
    parser.add_argument(
        "--tokenizer",
        metavar="T",
        type=FileOrName,
        help="a tokenizer.json, or bytes; default: the tokenizer.json beside the weights",
    )
    parser.add_argument("--prompt", default="The ", metavar="TEXT", help="begin the text with this")
    parser.add_argument(
        "--tokens",
        type=natural,
        default=200,
        metavar="N",
        help="write at most N tokens; default: 200",
    )
    _add_drawing(parser)
    parser.add_argument(
        "--no-cache", action="store_true", help="recompute the whole text for each token"
    )
    parser.add_argument(
        "--window", type=positive, metavar="N", help="read only the last N tokens of a longer text"
    )
    said = "type of the --weights; default: float32"
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32", help=said)
    _add_run(parser)
    add_threads(parser)
    add_backend(parser, device=True)
    add_kernels(parser)


def _add_run(parser: ArgumentParser) -> None:
    run = parser.add_argument_group("of a run")
    run.add_argument(
        "--diagram", metavar="FILE", type=Diagram, help="the .xg file of the run, if it has moved"
    )
    run.add_argument("--previous", action="store_true", help="use the checkpoint before the newest")


def _add_drawing(parser: ArgumentParser) -> None:
    drawing = parser.add_argument_group("drawing")
    drawing.add_argument(
        "--temperature",
        type=amount,
        default=0.8,
        metavar="X",
        help="1 samples as the model says, less is more careful, 0 takes the likeliest "
        "token; default: 0.8",
    )
    drawing.add_argument(
        "--top-k",
        type=positive,
        metavar="N",
        help="sample from the N likeliest tokens; default: all",
    )
    drawing.add_argument(
        "--top-p",
        type=share,
        metavar="X",
        help="sample from the likeliest tokens with this share of the probability",
    )
    drawing.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="random seed; default: 0"
    )
    drawing.add_argument("--stop", metavar="TOKEN", help="end the text at this token")


def share(text: str) -> float:
    """A number above 0 and at most 1."""
    number = amount(text)
    if not 0 < number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share, above 0 and at most 1")
    return number


def _of_run(options: Namespace) -> bool:
    return Path(options.file).is_dir()


def _of_weights(options: Namespace) -> bool:
    return not _of_run(options)


def _draws_tokens(options: Namespace) -> bool:
    return options.temperature > 0


RULES: Final = (
    Rule("--diagram", _of_run, "needs the folder of a run"),
    Rule("--previous", _of_run, "needs the folder of a run"),
    Rule("--names", _of_weights, "is for --weights; a run has its own names"),
    Rule("--dtype", _of_weights, "is for --weights; a run keeps the type of its training"),
    Rule("--seed", _draws_tokens, "draws tokens: use --temperature above 0"),
    Rule("--top-k", _draws_tokens, "limits which tokens are drawn: use --temperature above 0"),
    Rule("--top-p", _draws_tokens, "limits which tokens are drawn: use --temperature above 0"),
)


TOKENIZER: Final = "tokenizer.json"
BYTES: Final = "bytes"


def run(options: Namespace, console: Console) -> int:
    """Write text as it comes, then say how fast."""
    from xg.cli.compiling import compile_request, refuse_backend
    from xg_generate.runs import refuse_other_than_text

    refuse_backend(options, None if options.no_cache else "step")
    is_run = Path(options.file).is_dir()
    if not is_run and options.weights is None:
        refuse_other_than_text(compile_request(options))
        console.note(
            "xg generate: a diagram has no parameters: --weights names a file with them, or "
            f"`xg train {printable(options.file)}` learns some, and writes a run"
        )
        return USAGE
    if is_run and (options.settings or options.block or options.tokenizer or options.weights):
        console.note(f"xg generate: {options.file} is a run, which says itself what was trained")
        return USAGE
    writer, stop = _run_writer(options) if is_run else _weights_writer(options)
    _write(writer, stop, options, console)
    return FINE


def _write(writer: Writer, stop: tuple[int, ...], options: Namespace, console: Console) -> None:
    """Print the prompt, each piece as soon as it is known, and the speed."""
    from xg_generate.runs import shown
    from xg_runtime.generate import Sampling
    from xg_runtime.tokens import Timed, pieces

    how = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    ids = writer.codec.encode(options.prompt.encode())
    timed = Timed(writer.tokens(ids, options.tokens, how, stop))
    waiting = shown(options.prompt)  # until the model is known to continue
    for piece in pieces(timed, writer.codec, ids):
        console.stream(waiting + shown(piece))
        waiting = ""
    console.say(waiting)
    console.note(timed.report(len(ids)))


def _run_writer(options: Namespace) -> tuple[Writer, tuple[int, ...]]:
    """Return a writer with the model of a run, and the tokens at which it stops."""
    from xg_generate.runs import TrainedModel, Writer

    held = TrainedModel.read(Path(options.file), diagram=options.diagram, previous=options.previous)
    window = min(options.window or held.window, held.window)
    writer = Writer(
        held.program,
        held.params,
        held.vocabulary,
        window,
        backend=options.backend,
        cached=not options.no_cache,
        kernels=options.kernels,
        where=where(options),
    )
    return writer, _stop(options, held.vocabulary) if options.stop else ()


def _weights_writer(options: Namespace) -> tuple[Writer, tuple[int, ...]]:
    """Return a writer with a diagram and its weights, and the tokens at which it stops."""
    from xg.cli.input_arrays import Published, expected
    from xg.cli.opening import open_project
    from xg_generate.runs import Writer
    from xg_runtime.run import fit
    from xg_runtime.tokens import ByteVocabulary, Tokenizer, ends

    project = open_project(options.file)
    published = Published.read(project, options, options.weights)
    program = published.program
    params = fit(
        published.params, expected(program.params), dtype=options.dtype, source=published.source
    )
    codec = ByteVocabulary() if options.tokenizer == BYTES else Tokenizer.read(_tokenizer(options))
    writer = Writer(
        program,
        params,
        codec,
        options.window,
        backend=options.backend,
        cached=not options.no_cache,
        kernels=options.kernels,
        where=where(options),
    )
    if not options.stop:
        return writer, ends(_tokenizer_path(options))
    named = isinstance(codec, Tokenizer)
    return writer, (codec.token(options.stop),) if named else _stop(options, codec)


def _stop(options: Namespace, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The token that `--stop` means; raises InputError where it is several."""
    from xg_runtime.errors import InputError

    (token, *others) = vocabulary.encode(options.stop.encode()).tolist()
    if others:
        raise InputError(
            f"--stop takes one token, and {options.stop!r} is {len(others) + 1} tokens of "
            "this model: choose a shorter text"
        )
    return (token,)


def _tokenizer_path(options: Namespace) -> Path:
    weights: Path = options.weights
    return weights if weights.is_dir() else weights.parent


def _tokenizer(options: Namespace) -> Path:
    """The tokenizer that is named, or the one beside the weights."""
    from xg_runtime.errors import InputError

    if options.tokenizer:
        return Path(options.tokenizer)
    beside = _tokenizer_path(options) / TOKENIZER
    if not beside.is_file():
        raise InputError(
            f"generating text needs a tokenizer: name a {TOKENIZER} with --tokenizer, or "
            f"write --tokenizer {BYTES} if each token is a byte"
        )
    return beside
