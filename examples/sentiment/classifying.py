"""Ask a trained classifier about reviews."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import TypedDict

import numpy as np

from examples.sentiment import lexicon
from examples.sentiment.lexicon import Lexicon
from examples.sentiment.model import Classifier, compiled_again
from examples.sentiment.reviews import NAMES
from examples.sentiment.training import LEXICON
from examples.sentiment.words import words
from xg.driver import BACKENDS
from xg_runtime import checkpoint
from xg_runtime.errors import CheckpointError, FileError, InputError
from xg_runtime.module import Arrays, Module


class Answer(TypedDict):
    """A review, the probability that it is positive, and what the model read of it."""

    text: str
    positive: float
    label: str
    words: int
    unknown: list[str]


@dataclass(frozen=True)
class TrainedClassifier:
    """A classifier with its generated module, its parameters, and the words that have vectors."""

    classifier: Classifier
    module: Module
    params: Arrays
    lexicon: Lexicon

    @classmethod
    def read(
        cls, folder: Path, *, previous: bool = False, backend: str | None = None
    ) -> TrainedClassifier:
        """The classifier that a run has trained.

        Raises FileError, CheckpointError, InputError, DiagnosticError.
        """
        if not folder.is_dir():
            raise FileError(f"cannot read {folder}: it is not the folder of a run")
        state = checkpoint.load(folder, previous=previous)
        if "lexicon" not in state.facts["data"]:
            raise InputError(f"{folder} was not trained on reviews")
        classifier = compiled_again(folder, state)
        vectors = lexicon.read(folder / LEXICON)
        if vectors.sha256 != state.facts["data"]["lexicon"]:
            raise CheckpointError(f"{folder / LEXICON} has changed since the training")
        return cls(classifier, classifier.program.on_arrays(backend), state.params, vectors)

    def probabilities(self, texts: Sequence[str]) -> list[float]:
        """The probability of each text to be positive."""
        length = self.classifier.length
        ids = np.stack([self.lexicon.ids(text, length) for text in texts])
        dtype = next(iter(self.params.values())).dtype
        # The block also takes the truth, for its loss; its output does not depend on it.
        truth = np.zeros((len(texts), *self.classifier.truth_axes), dtype)
        vectors = self.lexicon.vectors[ids].astype(dtype)
        inputs = {self.classifier.vectors: vectors, self.classifier.truth: truth}
        outputs, _ = self.module.forward(self.params, inputs)
        numbers = [float(each) for each in outputs[self.classifier.output].reshape(-1)]
        return [1 / (1 + exp(-x)) for x in numbers] if self.classifier.logits else numbers


def add_arguments(parser: ArgumentParser) -> None:
    """Add the run and the texts."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")
    parser.add_argument(
        "texts", metavar="TEXT", nargs="*", help="a review; default: the lines of standard input"
    )
    parser.add_argument(
        "--previous", action="store_true", help="from the checkpoint before the newest"
    )
    parser.add_argument("--backend", choices=BACKENDS, default=BACKENDS[0])
    parser.add_argument("--json", action="store_true", help="the answers as data")


def run(options: Namespace) -> int:
    """Print how sure the model is of each review; returns the exit code.

    Raises DiagnosticError, XgRuntimeError.
    """
    model = TrainedClassifier.read(options.run, previous=options.previous, backend=options.backend)
    answers = _answers(model, options.texts or _lines())
    if options.json:
        print(json.dumps({"reviews": answers}, ensure_ascii=False, indent=1))
        return 0
    for each in answers:
        print(f"{each['positive']:.3f}  {each['label']}  {_printable(each['text'])}", flush=True)
    for line in _notes(answers, model.classifier.length):
        print(line, file=sys.stderr)
    return 0


def _answers(model: TrainedClassifier, texts: list[str]) -> list[Answer]:
    """The answer to each text; raises InputError for one without a word."""
    rows = [words(text) for text in texts]
    if not all(rows):
        raise InputError(f"review {rows.index([]) + 1} holds no word")
    return [
        {
            "text": text,
            "positive": probability,
            "label": NAMES[probability > 0.5],
            "words": len(row),
            "unknown": model.lexicon.unknown(text),
        }
        for text, row, probability in zip(texts, rows, model.probabilities(texts), strict=True)
    ]


def _lines() -> list[str]:
    """The reviews on standard input; raises InputError."""
    try:
        lines = sys.stdin.buffer.read().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 at byte {error.start}") from error
    texts = [line.strip() for line in lines if line.strip()]
    if not texts:
        raise InputError("no review is given: as an argument, or a line of standard input each")
    return texts


def _notes(answers: list[Answer], length: int) -> list[str]:
    """Remarks on words that the model did not read."""
    unknown = sorted({word for each in answers for word in each["unknown"]})
    longer = sum(each["words"] > length for each in answers)
    notes = [f"without a vector: {', '.join(map(_printable, unknown))}"] if unknown else []
    if longer:
        notes.append(
            f"of {longer} longer review{'s' * (longer > 1)} the first {length} words count"
        )
    return notes


def _printable(text: str) -> str:
    """A text without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
