"""Programs in files that hold all that a proof needs: what the fuzzer prints, and tests replay.

The first line is a comment with the seed of inputs, settings, and numbers for the sizes: a change
of the generator changes what a seed means, and these programs stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

FOLDER = Path(__file__).with_name("found")


class Provable(Protocol):
    """A text, and what its sizes and options are."""

    @property
    def settings(self) -> Mapping[str, str]: ...
    @property
    def numbers(self) -> Mapping[str, int]: ...
    @property
    def resized(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class Recorded:
    """A program that a proof can be repeated on."""

    text: str
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    resized: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        return self.text


def read(path: Path) -> Recorded:
    """The program of a file."""
    head, text = path.read_text(encoding="utf-8").split("\n", 1)
    return Recorded(text, **json.loads(head.removeprefix("# ")))


def as_file(program: Provable, seed: int) -> str:
    """The text of a file that `read` understands."""
    head = {
        "seed": seed,
        "settings": dict(program.settings),
        "numbers": dict(program.numbers),
        "resized": dict(program.resized),
    }
    return f"# {json.dumps(head, ensure_ascii=False)}\n{program}"


def recorded(kind: str) -> list[Path]:
    """The files of a kind: ``program``, ``plan``, ``figure``."""
    return sorted(FOLDER.glob(f"{kind}_*.xg"))
