"""`xg generate`: text from a model, published or trained here."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Final

from xg.cli.backend_argument import where
from xg.cli.compiling import compile_one, refuse_backend
from xg.cli.console import Console
from xg.cli.exits import FINE, USAGE
from xg.cli.input_arrays import Published, expected
from xg.cli.opening import open_project
from xg.diagnostics.terminal import printable
from xg_generate.runs.run_folder import TrainedModel
from xg_generate.writer import Writer, refuse_other_than_text, shown
from xg_runtime.errors import InputError
from xg_runtime.expect import fit
from xg_runtime.sample import Sampling
from xg_runtime.stream import Timed, pieces
from xg_runtime.tokenizer import Tokenizer, ends
from xg_runtime.tokens import ByteVocabulary, Vocabulary

TOKENIZER: Final = "tokenizer.json"
BYTES: Final = "bytes"


def run(options: Namespace, console: Console) -> int:
    """Write text as it comes, then say how fast."""
    refuse_backend(options, None if options.no_cache else "step")
    is_run = Path(options.file).is_dir()
    if not is_run and options.weights is None:
        refuse_other_than_text(compile_one(options))
        console.note(
            "xg generate: a diagram has no parameters: --weights names a file with them, or "
            f"`xg train {printable(options.file)}` learns some, and writes a run"
        )
        return USAGE
    if is_run and (options.settings or options.block or options.tokenizer or options.weights):
        console.note(f"xg generate: {options.file} is a run, which says itself what was trained")
        return USAGE
    writer, stop = _trained(options) if is_run else _published(options)
    _write(writer, stop, options, console)
    return FINE


def _write(writer: Writer, stop: tuple[int, ...], options: Namespace, console: Console) -> None:
    """Print the prompt, each piece as soon as it is known, and the speed."""
    how = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
    ids = writer.codec.encode(options.prompt.encode())
    timed = Timed(writer.tokens(ids, options.tokens, how, stop))
    waiting = shown(options.prompt)  # until the model is known to continue
    for piece in pieces(timed, writer.codec, ids):
        console.stream(waiting + shown(piece))
        waiting = ""
    console.say(waiting)
    console.note(timed.report(len(ids)))


def _trained(options: Namespace) -> tuple[Writer, tuple[int, ...]]:
    """The model of a run, and the tokens at which it stops."""
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


def _published(options: Namespace) -> tuple[Writer, tuple[int, ...]]:
    """A diagram with parameters from a file, and the tokens at which it stops."""
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
    (token, *others) = vocabulary.encode(options.stop.encode()).tolist()
    if others:
        raise InputError(f"--stop {options.stop!r} is {len(others) + 1} tokens of this model")
    return (token,)


def _tokenizer_path(options: Namespace) -> Path:
    weights: Path = options.weights
    return weights if weights.is_dir() else weights.parent


def _tokenizer(options: Namespace) -> Path:
    """The tokenizer that is named, or the one beside the weights."""
    if options.tokenizer:
        return Path(options.tokenizer)
    beside = _tokenizer_path(options) / TOKENIZER
    if not beside.is_file():
        raise InputError(
            f"nothing says what the tokens are: --tokenizer names a {TOKENIZER}, or {BYTES}"
        )
    return beside
