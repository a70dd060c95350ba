"""Trees of any kind: what every part of one has, and how to go through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, cast, dataclass_transform

from xg.diagnostics.lazy_dataclass import dataclass
from xg.diagnostics.source import Span

Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=())
def syntax(kind: type[Class]) -> type[Class]:
    """A frozen dataclass with slots; equality and text come from `Syntax`."""
    return dataclass(frozen=True, slots=True, eq=False, repr=False)(kind)


@syntax
class Syntax:
    """The base of every part of a tree: its place (`span.text` is how it is spelled)."""

    span: Span

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other) if isinstance(other, Syntax) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        """All fields but the places, as calls within calls; a loop, because trees are deep."""
        pieces: list[str] = []
        waiting: list[object] = [self]
        while waiting:
            match waiting.pop():
                case str() as piece:
                    pieces.append(piece)
                case Syntax() as tree:
                    values = [getattr(tree, name) for name in tree.__match_args__[1:]]
                    waiting += [")", *_separated(values), f"{type(tree).__name__}("]
                case items:
                    waiting += ["]", *_separated(cast("tuple[object, ...]", items)), "["]
        return "".join(pieces)


def _separated(values: Sequence[object]) -> Iterator[object]:
    """The parts of the `repr` of some values, the last first."""
    for position, value in enumerate(reversed(values)):
        if position:
            yield ", "
        yield value if isinstance(value, Syntax | tuple) else repr(value)


def parts(tree: Syntax) -> Iterator[Syntax]:
    """The trees that a tree is directly made of, in the order of its fields."""
    for name in tree.__match_args__[1:]:
        value: object = getattr(tree, name)
        if isinstance(value, Syntax):
            yield value
        elif isinstance(value, tuple):
            for item in cast("tuple[object, ...]", value):
                if isinstance(item, Syntax):
                    yield item


def only(kind: type[Class], trees: Iterable[Syntax]) -> tuple[Class, ...]:
    """The trees of one kind, in their order."""
    return tuple(tree for tree in trees if isinstance(tree, kind))


def walk(tree: Syntax) -> Iterator[Syntax]:
    """A tree and all trees inside it, each before its parts."""
    waiting = [tree]
    while waiting:
        tree = waiting.pop()
        yield tree
        waiting += parts(tree)
