"""`xg classify`: reviews judged by a model that was trained on others."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xg.cli.arguments import add_backend, add_kernels, refuse_backend
from xg.cli.console import Console
from xg.cli.exits import FINE
from xg.cli.training.threads import add_threads, limit_threads
from xg.diagnostics.terminal import printable

if TYPE_CHECKING:
    from xg.cli.training.judge import Judge

EXAMPLE = "xg classify runs/sentiment 'A warm and honest film.' 'Two hours that felt like four.'"


def add_arguments(parser: ArgumentParser) -> None:
    """A run, and what it is asked."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run on reviews")
    parser.add_argument(
        "texts", metavar="TEXT", nargs="*", help="a review; default: the lines of standard input"
    )
    parser.add_argument("--diagram", metavar="FILE", help="where the .xg file is now, if it moved")
    parser.add_argument(
        "--previous", action="store_true", help="from the checkpoint before the newest"
    )
    parser.add_argument("--json", action="store_true", help="what is said, as data")
    add_threads(parser)
    add_backend(parser)
    add_kernels(parser)


def run(options: Namespace, console: Console) -> int:
    """Say of each review how sure the model is that it is positive."""
    from xg.cli.training.judge import Judge

    refuse_backend(options)
    limit_threads(options.threads)
    judge = Judge.read(
        options.run,
        diagram=options.diagram,
        previous=options.previous,
        backend=options.backend,
        kernels=options.kernels,
    )
    said = _judged(judge, options.texts or _lines())
    if options.json:
        from xg.cli.render.json_text import json_text

        console.write(json_text({"reviews": said}))
        return FINE
    for each in said:
        console.say(f"{each['positive']:.3f}  {each['label']}  {printable(each['text'])}")
    for line in _notes(said, judge.length):
        console.note(line)
    return FINE


def _judged(judge: Judge, texts: list[str]) -> list[dict[str, Any]]:
    """What is known of each text; raises InputError for one without a word."""
    from xg_runtime.errors import InputError
    from xg_runtime.reviews import NAMES
    from xg_runtime.words import words

    found = [words(text) for text in texts]
    if not all(found):
        raise InputError(f"review {found.index([]) + 1} holds no word")
    return [
        {
            "text": text,
            "positive": sure,
            "label": NAMES[sure > 0.5],
            "words": len(row),
            "unknown": judge.lexicon.unknown(text),
        }
        for text, row, sure in zip(texts, found, judge.ask(texts), strict=True)
    ]


def _lines() -> list[str]:
    """The reviews on standard input; raises InputError."""
    from xg_runtime.errors import InputError

    try:
        lines = sys.stdin.buffer.read().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 at byte {error.start}") from error
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise InputError("no review is given: as an argument, or a line of standard input each")
    return found


def _notes(said: list[dict[str, Any]], length: int) -> list[str]:
    """What the model did not see."""
    unknown = sorted({word for each in said for word in each["unknown"]})
    longer = sum(each["words"] > length for each in said)
    notes = [f"without a vector: {', '.join(map(printable, unknown))}"] if unknown else []
    if longer:
        notes.append(
            f"of {longer} longer review{'s' * (longer > 1)} the first {length} words count"
        )
    return notes
