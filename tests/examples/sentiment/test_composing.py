"""The shipped reviews are those that the phrases make."""

from collections.abc import Callable
from pathlib import Path

from examples.sentiment.composing import compose
from examples.sentiment.composing.compose import LABELS, reviews

SHIPPED = Path(compose.__file__).parents[1] / "reviews.txt"


def test_the_shipped_reviews_are_composed_here(golden: Callable[[Path, str], None]) -> None:
    golden(SHIPPED, reviews())


def test_no_word_of_praise_gives_a_label_away() -> None:
    """Words of either kind occur in reviews of both labels: what is said of them decides."""
    lines = [line.split("\t") for line in reviews().splitlines() if "\t" in line]
    for word in ("dull", "boring", "moving", "funny"):
        assert {label for label, text in lines if word in text} == set(LABELS)
