"""File names made from names: lower case, ASCII, short, and never one that a system keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 60

# Names that some systems take for devices, with any ending.
_KEPT: Final = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)


def slug(name: str) -> str:
    """`Multi-Head Attention` gives `multi_head_attention`; it begins with a letter.

    >>> slug("01 MHA"), slug("é"), slug("CON")
    ('d01_mha', 'diagram', 'con_')
    """
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "diagram"
    if text[0].isdigit():
        text = f"d{text}"
    if len(text) > LONGEST:
        from hashlib import sha256  # few names are that long

        text = f"{text[: LONGEST - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
    return f"{text}_" if text in _KEPT else text


def stems(file: str, blocks: Iterable[str]) -> dict[str, str]:
    """A stem for the files of each block of a file, all different.

    >>> stems("mha", ["MHA", "Head", "head"])
    {'MHA': 'mha', 'Head': 'mha_head', 'head': 'mha_head_2'}
    """
    stem_of: dict[str, str] = {}
    for block in blocks:
        stem = file if slug(block) == file else slug(f"{file}_{block}")
        taken = set(stem_of.values())
        number = 2
        unique = stem
        while unique in taken:
            unique = f"{stem}_{number}"
            number += 1
        stem_of[block] = unique
    return stem_of
