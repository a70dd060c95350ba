"""The shipped reviews: lines written by hand, and lines composed of phrases written by hand.

Which phrases meet is drawn by a seed, so that the file can be made again byte for byte. A word of
praise does not make a composed review good: in some it is turned round by what follows ("is
dull, but … is moving") or denied ("is never dull").
"""

import tomllib
from pathlib import Path
from random import Random
from string import Formatter
from typing import Any

HERE = Path(__file__).parent
COMPOSED = 9500
LABELS = ("pos", "neg")
KINDS = ("plain", "turned", "denied", "told", "said")
ENDED = 0.25  # of the composed reviews end with a verdict
LONGEST = 14  # words
HEADER = """\
# Reviews of films that do not exist, written for this project: pos or neg, a tab, a review.
# The first {written} lines are written by hand, the others composed by composing/compose.py.
"""


def reviews() -> str:
    """The whole file."""
    written = (HERE / "written.txt").read_text(encoding="utf-8").splitlines()
    phrases = tomllib.loads((HERE / "phrases.toml").read_text(encoding="utf-8"))
    draw = Random(3)
    lines = dict.fromkeys(draw.sample(written, len(written)))
    while len(lines) < len(written) + COMPOSED:
        label = LABELS[len(lines) % 2]
        text = _composed(phrases, label, draw)
        if len(text.split()) <= LONGEST:
            lines[f"{label}\t{text}"] = None
    return HEADER.format(written=len(written)) + "\n".join(lines) + "\n"


def _composed(phrases: dict[str, Any], label: str, draw: Random) -> str:
    """One review of a label: one sentence or two."""
    (kind,) = draw.choices(KINDS, [phrases[kind]["often"] for kind in KINDS])
    form = draw.choice(phrases[kind]["forms"])
    if kind != "said" and draw.random() < ENDED:
        form += ". {verdict}"
    text = _filled(form, phrases, label, draw)
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in text.split(". "))


def _filled(form: str, phrases: dict[str, Any], label: str, draw: Random) -> str:
    """A form with its gaps filled, no phrase twice: {part2} is another {part}, {a_good} has "a"."""
    gaps = [name for _, name, _, _ in Formatter().parse(form) if name]
    kinds = {gap: gap.removeprefix("a_").rstrip("23") for gap in gaps}
    drawn = {
        kind: draw.sample(_choices(kind, phrases, label), list(kinds.values()).count(kind))
        for kind in dict.fromkeys(kinds.values())
    }
    found = {gap: drawn[kinds[gap]].pop() for gap in gaps}
    return form.format(**{gap: _with_article(gap, found[gap]) for gap in gaps})


def _choices(kind: str, phrases: dict[str, Any], label: str) -> list[str]:
    """The phrases of a kind that go with a label; {bad} is what is good for the other."""
    if kind == "bad":
        return phrases["good"][LABELS[1 - LABELS.index(label)]]
    found: list[str] | dict[str, list[str]] = phrases[kind]
    return found[label] if isinstance(found, dict) else found


def _with_article(gap: str, phrase: str) -> str:
    if not gap.startswith("a_"):
        return phrase
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"


if __name__ == "__main__":
    print(reviews(), end="")
