"""Blocks in the printed IR: the number of the file tells blocks of one name apart."""

from __future__ import annotations

import re

from xg.ir.plan import BlockId


def label(block: BlockId) -> str:
    """The label of a block: its name in the main file, ``Layer~1`` in the first other file."""
    file, name = block
    return f"{name}~{file}" if file else name


def labelled(text: str) -> BlockId:
    """The block of a label."""
    name, _, file = text.partition("~")
    return int(file or 0), name


def usual_label(key: str) -> str:
    """The label of the block that a graph of this key usually belongs to."""
    name = re.match(r"\w*", key)
    return name.group() if name else ""
