"""Reviews to learn from: a text file, one review a line, its label before a tab.

    pos<TAB>A quiet film, and I still think about it.
    neg<TAB>Two hours that felt like four.

The labels are pos, positive and 1, or neg, negative and 0. Blank lines and lines that begin with #
are left out. `split` keeps every fifth review of either label for validation, in the order of the
file: which ones depends on nothing else.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.sentiment.words import words
from xg_runtime import files
from xg_runtime.errors import InputError

LABELS: Final = {"pos": 1, "positive": 1, "1": 1, "neg": 0, "negative": 0, "0": 0}
NAMES: Final = ("negative", "positive")
HELD: Final = 5  # of so many reviews of a label one is kept for validation
FORM: Final = "a line is pos or neg, a tab and a text"
_SHOWN: Final = 5


@dataclass(frozen=True)
class Reviews:
    """Texts and their labels, 1 for positive; the SHA-256 of the file."""

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    sha256: str

    def __len__(self) -> int:
        """How many there are."""
        return len(self.texts)

    @property
    def majority(self) -> float:
        """The accuracy of saying always what is more frequent."""
        share = sum(self.labels) / len(self.labels)
        return max(share, 1 - share)

    @property
    def entropy(self) -> float:
        """The loss of knowing only how frequent the labels are, in nats: ln 2 if equally."""
        share = sum(self.labels) / len(self.labels)
        return -share * math.log(share) - (1 - share) * math.log(1 - share)


def load(path: Path) -> Reviews:
    """Return the reviews of a file; raises FileError, InputError."""
    return reviews_of(files.read(path), str(path))


def reviews_of(data: bytes, source: str) -> Reviews:
    """Return the reviews of a file in memory; `source` is what messages call it."""
    found: list[tuple[int, str]] = []
    wrong: list[str] = []
    for number, line in _lines(data, source):
        label, tab, text = line.partition("\t")
        mistake = _mistake(label.strip().lower(), tab, text)
        if mistake:
            wrong.append(f"line {number}: {mistake}")
        else:
            found.append((LABELS[label.strip().lower()], text.strip()))
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise InputError(f"{source} cannot be read: {FORM}", [*wrong[:_SHOWN], *more])
    _refuse_few([label for label, _ in found], source)
    labels, texts = zip(*found, strict=True)
    return Reviews(texts, labels, hashlib.sha256(data).hexdigest())


def split(reviews: Reviews, whole: int = 512) -> tuple[Reviews, Reviews]:
    """Return the reviews to train on and those for validation.

    Of more than `whole` held ones so many are kept that batches of `whole` are full: then the mean
    over batches is the mean over reviews.
    """
    held = [place for label in (0, 1) for place in _places(reviews, label)[HELD - 1 :: HELD]]
    held.sort()
    if len(held) > whole:
        del held[len(held) - len(held) % whole :]
    kept = set(held)
    others = [place for place in range(len(reviews)) if place not in kept]
    return _taken(reviews, others), _taken(reviews, held)


def _lines(data: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield each line that holds a review, with its number from 1."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source} is not UTF-8 in line {line}: save it as UTF-8") from error
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip("\r")


def _mistake(label: str, tab: str, text: str) -> str:
    """Return what is wrong with a line, or nothing."""
    if not tab:
        return "no tab between a label and a text"
    if label not in LABELS:
        return f"{label[:20]!r} is no label: pos or neg"
    return "" if words(text) else "no word behind the tab"


def _refuse_few(labels: Sequence[int], source: str) -> None:
    """Raise InputError where one could not both train and validate."""
    if not labels:
        raise InputError(f"{source} holds no reviews: {FORM}")
    for label, name in enumerate(NAMES):
        count = labels.count(label)
        if count < HELD:
            raise InputError(
                f"{source} holds {count or 'no'} {name} review{'s' * (count != 1)} of {len(labels)}"
                f": at least {HELD} of each kind are needed, to train and to validate"
            )


def _places(reviews: Reviews, label: int) -> list[int]:
    return [place for place, found in enumerate(reviews.labels) if found == label]


def _taken(reviews: Reviews, places: Sequence[int]) -> Reviews:
    texts = tuple(reviews.texts[place] for place in places)
    return Reviews(texts, tuple(reviews.labels[place] for place in places), reviews.sha256)
