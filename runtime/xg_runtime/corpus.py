"""Text to train on: read, turned into tokens, split; and the entropy a model has to beat.

    load(path, tokens) -> Corpus         path None: a text that every Python has
    unigram_entropy(tokens) -> float     nats per token

The default text is the language reference topics of the standard library (`pydoc_data.topics`),
in the order of their names: about 700 kB of English, the same bytes for one Python version.
"""

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xg_runtime import files
from xg_runtime.errors import FileError, InputError
from xg_runtime.module import Array
from xg_runtime.tokens import Level, Vocabulary, vocabulary_of


@dataclass(frozen=True)
class Corpus:
    """Token ids for training and validation [N], [M], what they mean, and the text's SHA-256."""

    train: Array
    validation: Array
    vocabulary: Vocabulary
    sha256: str

    @property
    def entropy(self) -> float:
        """The unigram entropy of the training tokens, in nats."""
        return unigram_entropy(self.train)


def load(path: Path | None, tokens: Level | Vocabulary = "byte", validation: float = 0.1) -> Corpus:
    """Return the corpus of a text file, or of the default text.

    The last `validation` part of the tokens is kept from training. Raises FileError, InputError.
    """
    text = default_text() if path is None else files.read(path)
    return corpus_of(text, tokens, validation)


def corpus_of(text: bytes, tokens: Level | Vocabulary = "byte", validation: float = 0.1) -> Corpus:
    """Return the corpus of a text in memory, in tokens of a level or of a given vocabulary."""
    if not text:
        raise InputError("the text to train on is empty: name a file that has some")
    vocabulary = vocabulary_of(text, tokens) if isinstance(tokens, str) else tokens
    return split(vocabulary.encode(text), vocabulary, hashlib.sha256(text).hexdigest(), validation)


def split(ids: Array, vocabulary: Vocabulary, sha256: str, validation: float = 0.1) -> Corpus:
    """Return the corpus of tokens; the last `validation` part of them is kept from training."""
    cut = len(ids) - round(len(ids) * validation)
    return Corpus(ids[:cut], ids[cut:], vocabulary, sha256)


def default_text() -> bytes:
    """Return the language reference topics of this Python in UTF-8; raises FileError."""
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError as error:
        raise FileError(
            "this Python lacks pydoc_data, the default text: name a text to train on"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics)).encode()


def unigram_entropy(tokens: Array) -> float:
    """Return -Σ p ln p over how often each id occurs: the loss of knowing frequencies only."""
    counts = np.bincount(tokens)
    share = counts[counts > 0] / len(tokens)
    return float(-(share * np.log(share)).sum())
