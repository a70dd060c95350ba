"""Facts about a place from the tokens before it: the declaration, the node, the path there."""

from __future__ import annotations

from collections.abc import Sequence

from xg.syntax.spelling import GLYPHS
from xg.syntax.tokens import Token
from xg_editor.meaning.called import opened, token_name

_ITEMS = {"DIM", "MESH", "OPTION", "OP", "BLOCK", "PLAN", "EXAMPLE", "USE", "EDITION"}


def declaring_word(before: Sequence[Token]) -> Token | None:
    """The word of the declaration that a place is in: `dim` in a block counts as the block's."""
    depth, item = 0, None
    for token in before:
        depth += (token.type == "LBRACE") - (token.type == "RBRACE")
        if token.type in _ITEMS and (depth <= 0 or token.type != "DIM"):
            depth, item = 0, token
    return item


def name_behind(before: Sequence[Token], item: Token | None, kinds: Sequence[str]) -> str:
    """The name behind a word of the declaration around a place."""
    if item is None:
        return ""
    start = next(i for i, token in enumerate(before) if token is item)
    for word, name in zip(before[start:], before[start + 1 :], strict=False):
        if word.type in kinds:
            return token_name(name)
    return ""


def path_before(before: Sequence[Token]) -> list[str]:
    """The segments of a path that end in a point: `layers.0.` gives layers and 0."""
    segments: list[str] = []
    index = len(before)
    while index >= 2 and before[index - 1].type == "DOT":
        segments.insert(0, token_name(before[index - 2]))
        index -= 2
    return segments


def node_before(before: Sequence[Token]) -> str:
    """The operator of the node that ends or goes on at a place; nothing where there is none."""
    index = len(before) - 1
    while index >= 0 and before[index].type != "ARROW":
        if before[index].type in ("RPAR", "RSQB"):
            index = opened(before[:index]) or 0
        elif before[index].type in ("LPAR", "LSQB", "LBRACE", "COLON"):
            return ""
        index -= 1
    if index < 0:
        return ""
    behind = before[index + 1 :]
    if len(behind) > 2 and behind[1].type in ("CROSS", "STAR"):  # `N × Layer`
        behind = behind[2:]
    is_name = bool(behind) and (behind[0].type == "NAME" or behind[0].type in GLYPHS)
    return token_name(behind[0]) if is_name else ""
