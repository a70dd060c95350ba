"""The combinations of options that a block distinguishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import product
from math import prod

from xg.frontend.blocks import mentions
from xg.frontend.typed import Settings
from xg.syntax import ast

PRODUCT_AT_MOST = 64  # combinations for one block; of more, each word once, with a warning

Words = Mapping[str, tuple[str, ...]]
Choice = dict[str, str]


def choices_of(block: ast.Block, options: Words, settings: Settings) -> list[Choice]:
    """The combinations of words that a block distinguishes; of too many, every word once."""
    words = mentioned_words(block, options, settings)
    if prod(map(len, words.values())) <= PRODUCT_AT_MOST:
        return [dict(zip(words, chosen, strict=True)) for chosen in product(*words.values())]
    return [{}, *({name: word} for name in words for word in words[name][1:])]


def mentioned_words(block: ast.Block, options: Words, settings: Settings) -> Words:
    """The options that are open and that a block mentions, with their words."""
    own = {option.name.name: tuple(w.name for w in option.words) for option in block.own}
    words = {**options, **{name: words for name, words in own.items() if words}}
    mentioned_names = mentions(block)
    return {n: words[n] for n in words if n not in settings and (n in own or n in mentioned_names)}


def joined(
    choice: Choice, waiting: Iterable[Sequence[Choice]], options: Set[str], turn: int
) -> Choice:
    """The choice, with what other blocks have yet to meet and does not contradict it.

    Each turn begins with others of a block.
    """
    together = dict(choice)
    for choices in waiting:
        if options <= together.keys():
            break
        place = turn % max(len(choices), 1)
        for other in (*choices[place:], *choices[:place]):
            shared = {name: word for name, word in other.items() if name in options}
            if not _contradict(shared, together):
                together.update(shared)
                break
    return together


def _contradict(one: Choice, other: Choice) -> bool:
    return any(other.get(name, word) != word for name, word in one.items())
