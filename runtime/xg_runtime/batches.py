"""Read training data from text, shards or datasets, in batches that depend on seed and step only.

    TextSource(corpus, batch=8, window=64, ...)     next-token batches from a text
    ArraySource(arrays, batched={"X", "t"}, ...)    rows of arrays, for every other task

A source keeps no position: `batch(step)` is a pure function, so resuming needs only the step.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import numpy as np

from xg_runtime import files
from xg_runtime.errors import FileError, InputError
from xg_runtime.files import file_errors, refuse_special
from xg_runtime.module import Array, Arrays
from xg_runtime.random import fold
from xg_runtime.tokens import Level, Vocabulary, vocabulary_of

# Text to train on: read, turned into tokens, split; and the entropy a model has to beat.
#
#     load(path, tokens) -> Corpus         path None: a text that every Python has
#     unigram_entropy(tokens) -> float     nats per token
#
# The default text is the language reference topics of the standard library (`pydoc_data.topics`),
# in the order of their names: about 700 kB of English, the same bytes for one Python version.


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


# A folder that `save_to_disk` of Hugging Face's datasets has written, read by that package.
#
#     columns(path) -> names                what there is
#     read(path, names) -> {name: rows}     a list of arrays for each column, one for each row
#
# Nothing is loaded from elsewhere.


def columns(path: Path) -> list[str]:
    """Return the names of the columns; raises InputError where the folder has no single dataset."""
    return list(_dataset(path).column_names)


def read(path: Path, names: Iterable[str]) -> dict[str, list[Array]]:
    """Return the rows of some columns; raises InputError."""
    data: Any = _dataset(path).with_format("numpy")
    return {name: [np.asarray(row) for row in cast("list[Any]", data[name])] for name in names}


def stack_columns(path: Path, names: Iterable[str]) -> Arrays:
    """Return columns as arrays with a row for each row; raises InputError for uneven ones."""
    found: Arrays = {}
    for name, rows in read(path, names).items():
        shapes = {row.shape for row in rows}
        if len(shapes) != 1:
            raise InputError(
                f"the rows of {name} in {path} must have one shape; found {len(shapes)}"
            )
        found[name] = np.stack(rows)
    return found


def joined(path: Path, name: str) -> Array:
    """Return a column of lists of tokens as one list, row after row; raises InputError."""
    rows = read(path, [name])[name]
    tokens = np.concatenate([np.ravel(row) for row in rows]) if rows else np.zeros(0)
    if not np.issubdtype(tokens.dtype, np.integer):
        raise InputError(f"{name} in {path} must hold integers, the tokens; found {tokens.dtype}")
    return tokens


def _dataset(path: Path) -> Any:  # noqa: ANN401 - datasets has no types
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            f"reading the folder {path} needs the package datasets: pip install 'xg[datasets]'"
        ) from error
    package: Any = datasets
    try:
        data: Any = package.load_from_disk(str(path))
    except Exception as error:  # datasets, pyarrow and fsspec have errors of their own
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is no folder that `save_to_disk` of datasets wrote: {reason}"
        ) from error
    if isinstance(data, dict):
        parts = ", ".join(f"{path}/{name}" for name in cast("dict[str, Any]", data))
        raise InputError(f"{path} has several datasets: name one of them with --data, {parts}")
    return data


# Shards of tokens, as tools for pretraining write them: numbers of one width, one after the other.
#
#     find(Path("data/shard_*.bin")) -> paths      by name; of one file that alone
#     read(paths, "uint16") -> Shards              the tokens of all, in this order
#
# nanoGPT writes nothing but tokens, so their width has to be named. llm.c and what follows it begin
# a file with 256 numbers of 32 bits, of which the first says the width and the third how many
# tokens there are.


TokenType: TypeAlias = Literal["uint16", "uint32"]
ENDING: Final = ".bin"
_LITTLE: Final = {"uint16": "<u2", "uint32": "<u4"}
_KNOWN: Final[dict[tuple[int, int], TokenType]] = {  # by the first two numbers of a header
    (20240520, 1): "uint16",
    (20240801, 7): "uint32",
}
_HEADER: Final = 256  # numbers of 32 bits


@dataclass(frozen=True)
class Shards:
    """The tokens [N] of all files, and the SHA-256 of their bytes."""

    ids: Array
    sha256: str


def find(path: Path) -> list[Path]:
    """Return the files of a name in which `*` is any text, in the order of their names.

    Raises InputError where there is none.
    """
    if "*" not in path.name or path.is_file():
        return [path]
    found = sorted(each for each in path.parent.glob(path.name) if each.is_file())
    if not found:
        raise InputError(f"there is no file {path}")
    return found


def read_shards(paths: Sequence[Path], type_: TokenType | None, size: int) -> Shards:
    """Return the tokens of files, each below `size`, all in memory; raises InputError, FileError.

    `type_` is needed where the files have no header.
    """
    sha256 = hashlib.sha256()
    parts: list[Array] = []
    for path in paths:
        with file_errors("read"):
            refuse_special(path)
            content = np.fromfile(path, np.uint8)
        sha256.update(content.data)
        ids = _tokens(path, content, type_)
        check_vocabulary(path.name, ids, size)
        parts.append(ids)
    widths = {part.dtype.name: path for part, path in zip(parts, paths, strict=True)}
    if len(widths) > 1:
        others = ", ".join(f"{path.name} {width}" for width, path in widths.items())
        raise InputError(f"shards of one text must have one type of token; found {others}")
    return Shards(np.concatenate(parts), sha256.hexdigest())


def _tokens(path: Path, content: Array, type_: TokenType | None) -> Array:
    """Return the tokens of one file."""
    head = content[: 4 * _HEADER].view("<i4") if len(content) >= 4 * _HEADER else np.zeros(3)
    known = _KNOWN.get((int(head[0]), int(head[1])))
    if known is None and type_ is None:
        raise InputError(
            f"{path.name} does not say how wide its tokens are: write --token-type uint16, or "
            "uint32"
        )
    if known and type_ not in (None, known):
        raise InputError(
            f"the header of {path.name} says {known}, not {type_}: leave out --token-type"
        )
    body = content[4 * _HEADER :] if known else content
    kind = np.dtype(_LITTLE[known or type_ or "uint16"])
    if len(body) % kind.itemsize:
        raise InputError(
            f"{path.name} must hold whole tokens of {kind.itemsize} bytes; found "
            f"{len(body):,} bytes"
        )
    ids: Array = body.view(kind)
    if known and len(ids) != int(head[2]):
        said = f"the header of {path.name} says {int(head[2]):,} tokens"
        raise InputError(f"{said}, but it has {len(ids):,}: the file is cut off or damaged")
    return ids


def check_vocabulary(source: str, ids: Array, size: int) -> None:
    """Refuse tokens from `size` on: another vocabulary, or another width."""
    if not len(ids):
        raise InputError(f"{source} has no tokens")
    if ids.min() < 0:
        raise InputError(f"{source} has the token {ids.min()}: tokens must be 0 or more")
    place = int(ids.argmax())
    if ids[place] >= size:
        raise InputError(
            f"{source} has the token {ids[place]:,} at place {place:,}, but the vocabulary "
            f"ends with {size - 1:,}: set the number of tokens, or check --token-type"
        )


class Source(Protocol):
    """The data of a training loop."""

    @property
    def unit(self) -> str:
        """The name of one item: "tokens" or "rows"."""
        ...

    @property
    def items(self) -> int:
        """How many items a batch holds."""
        ...

    @property
    def batched(self) -> frozenset[str]:
        """The inputs that have a row for each row of a batch, along axis 0."""
        ...

    def batch(self, step: int) -> Arrays:
        """Return the inputs of training step `step`, which counts from 0."""
        ...

    def validation(self) -> Iterator[Arrays]:
        """Return the validation batches, always the same; none is allowed."""
        ...

    def describe(self) -> dict[str, str | int]:
        """Return what a resumed run must find equal."""
        ...


@dataclass(frozen=True)
class TextSource:
    """Windows of a text: ids [B, S] and, one token later, targets [B, S], both int64."""

    corpus: Corpus
    batch_size: int
    window: int
    seed: int = 0
    inputs: tuple[str, str] = ("ids", "t")
    validation_batches: int = 8
    unit: str = "tokens"

    def __post_init__(self) -> None:
        """Refuse a window that the text cannot fill."""
        if len(self.corpus.train) <= self.window:
            raise InputError(
                f"a window of {self.window} tokens needs a longer text: only "
                f"{len(self.corpus.train)} tokens are there to train on"
            )

    @property
    def batched(self) -> frozenset[str]:
        """Return the names of both inputs, since each has a row for each row of a batch."""
        return frozenset(self.inputs)

    @property
    def items(self) -> int:
        """Tokens in a batch: B · S."""
        return self.batch_size * self.window

    def batch(self, step: int) -> Arrays:
        """Return B windows that begin anywhere in the training tokens."""
        places = len(self.corpus.train) - self.window
        return self._windows(self.corpus.train, drawn(self.seed, step, self.batch_size, places))

    def validation(self) -> Iterator[Arrays]:
        """Return batches of windows spread evenly over the validation tokens."""
        places = max(len(self.corpus.validation) - self.window, 0)
        count = min(self.validation_batches * self.batch_size, places)
        starts = [place * places // count for place in range(count)]
        for rows in in_batches(starts, self.batch_size):
            yield self._windows(self.corpus.validation, rows)

    def describe(self) -> dict[str, str | int]:
        """Return text, batch size, window and seed."""
        return {
            "sha256": self.corpus.sha256,
            "training tokens": len(self.corpus.train),
            "batch": self.batch_size,
            "window": self.window,
            "seed": self.seed,
        }

    def _windows(self, tokens: Array, starts: list[int]) -> Arrays:
        at = np.array(starts)[:, None] + np.arange(self.window + 1)
        window = tokens[at].astype(np.int64)
        ids, targets = self.inputs
        return {ids: window[:, :-1].copy(), targets: window[:, 1:].copy()}


@dataclass(frozen=True)
class ArraySource:
    """Rows drawn from arrays: those in `batched` along axis 0, the others whole in every batch.

    The last `held` rows are for validation. Arrays must already fit the program (`expect.fit`).
    """

    arrays: Arrays = field(repr=False)
    batched: frozenset[str]
    batch_size: int
    sha256: str
    held: int = 0
    seed: int = 0
    unit: str = "rows"

    def __post_init__(self) -> None:
        """Refuse arrays of different length, and too few rows."""
        lengths = {len(self.arrays[name]) for name in sorted(self.batched)}
        if len(lengths) != 1:
            raise InputError(
                f"{', '.join(sorted(self.batched))} must have the same number of rows; found "
                f"{', '.join(map(str, sorted(lengths)))}"
            )
        if self._rows < 1:
            raise InputError(f"no rows are left to train on: validation takes {self.held}")

    @property
    def items(self) -> int:
        """Rows in a batch."""
        return self.batch_size

    @property
    def _rows(self) -> int:
        """How many rows are for training."""
        return len(self.arrays[min(self.batched)]) - self.held

    def batch(self, step: int) -> Arrays:
        """Return B rows, drawn with replacement."""
        return self._take(drawn(self.seed, step, self.batch_size, self._rows))

    def validation(self) -> Iterator[Arrays]:
        """Return the held rows in order."""
        held = list(range(self._rows, self._rows + self.held))
        for rows in in_batches(held, self.batch_size):
            yield self._take(rows)

    def describe(self) -> dict[str, str | int]:
        """Return file, batch size, held rows and seed."""
        return {
            "sha256": self.sha256,
            "batch": self.batch_size,
            "held": self.held,
            "seed": self.seed,
        }

    def _take(self, rows: list[int]) -> Arrays:
        return {
            name: array[rows] if name in self.batched else array
            for name, array in self.arrays.items()
        }


def drawn(seed: int, step: int, count: int, places: int) -> list[int]:
    """Return `count` places of a step, with replacement; the remainder's bias is below n / 2⁶⁴."""
    key = fold(seed, "batch", step)
    return [fold(key, row) % places for row in range(count)]


def in_batches(rows: list[int], size: int) -> Iterator[list[int]]:
    """Return whole batches, so that the mean over batches is the mean over rows; or one small."""
    if 0 < len(rows) < size:
        yield rows
    for first in range(0, len(rows) - size + 1, size):
        yield rows[first : first + size]
