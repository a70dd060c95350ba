"""The shipped reviews: lines written by hand, and lines composed of phrases written by hand.

Which phrases meet is drawn by a seed, so that the file can be made again byte for byte. A word of
praise does not make a composed review good: in some it is turned round by what follows ("is
dull, but … is moving") or denied ("is never dull").
"""

import tomllib
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
COMPOSED = 1800
LABELS = ("pos", "neg")
HEADER = """\
# Reviews of films that do not exist, written for this project: pos or neg, a tab, a review.
# The first 200 lines are written by hand, the others composed by tests/reviews/compose.py.
"""


def reviews() -> str:
    """The whole file."""
    written = (HERE / "written.txt").read_text(encoding="utf-8").splitlines()
    phrases = tomllib.loads((HERE / "phrases.toml").read_text(encoding="utf-8"))
    draw = Random(3)
    lines = dict.fromkeys(_shuffled(written, draw))
    while len(lines) < len(written) + COMPOSED:
        label = LABELS[len(lines) % 2]
        lines[f"{label}\t{_composed(phrases, label, draw)}"] = None
    return HEADER + "\n".join(lines) + "\n"


def _shuffled(lines: list[str], draw: Random) -> list[str]:
    return draw.sample(lines, len(lines))


def _composed(phrases: dict[str, Any], label: str, draw: Random) -> str:
    """One review of a label."""
    kind = draw.choices(("plain", "turned", "denied", "deed", "verdict"), (9, 3, 2, 2, 2))[0]
    verdict = _sentence(draw.choice(phrases["verdicts"][label]))
    if kind == "verdict":
        other = draw.choice(phrases["verdicts"][label])
        return f"{verdict} {_sentence(other)}"
    if kind == "deed":
        told = f"{draw.choice(phrases['people'])} {draw.choice(phrases['deeds'][label])}"
    else:
        told = _told(phrases, kind, label, draw)
    ended = draw.random() < (0.7 if kind == "deed" else 0.35)
    return f"{_sentence(told)} {verdict}" if ended else _sentence(told)


def _told(phrases: dict[str, Any], kind: str, label: str, draw: Random) -> str:
    """A form with its gaps filled."""
    other = LABELS[1 - LABELS.index(label)]
    good, bad = (draw.sample(phrases["words"][name], 3) for name in (label, other))
    a, b = draw.sample(phrases["parts"], 2)
    adverb, adverb2 = draw.sample(phrases["adverbs"][label], 2)
    gaps = {"a": a, "b": b, "good": good[0], "good2": good[1], "good3": good[2]}
    gaps |= {"bad": bad[0], "bad2": bad[1], "adverb": adverb, "adverb2": adverb2}
    gaps["a_good"] = f"{'an' if good[0][0] in 'aeiou' else 'a'} {good[0]}"
    gaps["noun"] = draw.choice(phrases["nouns"][label])
    return draw.choice(phrases["forms"][kind]).format(**gaps)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    print(reviews(), end="")  # noqa: T201
