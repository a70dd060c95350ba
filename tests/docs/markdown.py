"""Code blocks of a Markdown file, each with the comment that says how it is tested.

`<!-- file: NAME -->` in front: the block is a file that later commands of the document read.
`<!-- part of: COMMAND -->`: every piece of the block, between lines `…`, is in what that prints.
`<!-- numbers vary -->`: of the outputs of a console block, numbers are not compared.
`<!-- thorough -->`: a console block takes seconds, and its kind of command is tried elsewhere too:
it is run by `./dev verify-all`, and wherever outputs are written by `./dev docs`.
A `console` block: lines after `$ ` are run, and what follows each is what it prints. There `…`
matches anything, and alone on a line any lines; all rounding errors (4.2e-10) count as equal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

FENCE = re.compile(
    r"(?:^<!-- (?P<how>file|part of|numbers vary|thorough)(?:: (?P<what>[^\n]*?))? -->\n)?"
    r"^(?P<sign>`{3,})(?P<language>[^`\n]*)\n(?P<text>.*?)^(?P=sign)$",
    re.MULTILINE | re.DOTALL,
)
ROUNDING = re.compile(r"\b\d\.\de[-+]\d\d\b")
NUMBER = re.compile(r"\d[\d,.]*\d|\d")


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, and how it is tested ("" where nothing is said)."""

    language: str
    text: str
    how: str
    what: str
    start: int  # where the text begins in the document


@dataclass(frozen=True)
class Command:
    """A command of a console block and what it should print."""

    text: str
    output: str


def blocks(document: str) -> list[Block]:
    """Every code block of a document."""
    return [
        Block(
            found["language"],
            found["text"],
            found["how"] or "",
            found["what"] or "",
            found.start("text"),
        )
        for found in FENCE.finditer(document)
    ]


def commands(console: str) -> list[Command]:
    """The commands of a console block."""
    parts = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)
    assert parts[0] == "", "a console block begins with a command"
    return [Command(text, out) for text, out in zip(parts[1::2], parts[2::2], strict=True)]


def matches(expected: str, found: str, *, numbers: bool = True) -> bool:
    """Whether a text is the expected one, where `…` matches anything."""
    unsteady = ROUNDING if numbers else NUMBER
    expected, found = (unsteady.sub("0", text) for text in (expected, found))
    any_of = {"…\n": "(?:.*\n)*?", "…": ".*?"}
    parts = re.split("(^…\n|…)", expected, flags=re.MULTILINE)
    pattern = "".join(any_of.get(part) or re.escape(part) for part in parts)
    return re.fullmatch(pattern, found) is not None


def pieces(text: str) -> list[str]:
    """The pieces of a block between its lines `…`, without blank lines around them."""
    return [piece.strip("\n") for piece in re.split(r"^ *…\n", text, flags=re.MULTILINE)]
