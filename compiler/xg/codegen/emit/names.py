"""Names in generated code: the author's where there is one, never a keyword, never twice.

While a module is written, every name that comes from the diagram is marked: its first letter is one
of an alphabet that no name uses, one alphabet for each kind. So each name in the text is known to
be the author's or the module's own. Where both have one spelling in one scope, the author's is
written with ``_`` behind it; at the end the marks are removed (`xg.codegen.emit.scopes`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from keyword import iskeyword, issoftkeyword
from types import MappingProxyType
from typing import Final, Literal, get_args

Kind = Literal["size", "function", "variable"]  # classes are named as functions are
Avoided = Mapping[Kind, frozenset[str]]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_LETTERS: Final = string.ascii_letters + "_"
_FIRST: Final = 0x14400  # Anatolian hieroglyphs: Python takes them in names as they are
_MARKS: Final[Mapping[Kind, Mapping[str, str]]] = {
    kind: {letter: chr(_FIRST + 64 * row + n) for n, letter in enumerate(_LETTERS)}
    for row, kind in enumerate(KINDS)
}
_KINDS: Final[Mapping[str, Kind]] = {
    mark: kind for kind, marks in _MARKS.items() for mark in marks.values()
}
_PLAIN: Final = {ord(mark): letter for marks in _MARKS.values() for letter, mark in marks.items()}
_MARK: Final = re.compile(f"[{min(_KINDS)}-{max(_KINDS)}]")  # a range is found fast
_NOTHING: Final[Avoided] = MappingProxyType({})
_avoided: ContextVar[Avoided] = ContextVar("avoided", default=_NOTHING)


class Names:
    """Gives out identifiers of one scope; what was given once is taken."""

    def __init__(self, taken: Iterable[str] = (), kind: Kind = "variable") -> None:
        self._kind: Kind = kind
        self._taken = set(map(plain, taken))
        self._next: dict[str, int] = {}  # a number per name below which all are taken
        self._promised: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """The wanted name if it is free, else the same with a number; ``U_#`` asks for one."""
        wanted = plain(wanted)
        if wanted.endswith("_#"):
            return self._numbered(identifier(wanted[:-2]), 1)
        name = identifier(wanted)
        while self._belongs(name):
            name += "_"
        if name in self._promised:
            self._promised.remove(name)
            return self._given(name)
        if name in self._taken:
            return self._numbered(name.removesuffix("_"), 2)
        return self._given(name)

    def _belongs(self, name: str) -> bool:
        """Whether a name means something else already, in Python or in the module."""
        avoided = _avoided.get().get(self._kind, ())
        made = (name, f"d_{name}", f"move_{name}") if self._kind == "function" else (name,)
        return _is_keyword(name) or any(each in avoided for each in made)

    def _numbered(self, name: str, number: int) -> str:
        number = max(number, self._next.get(name, 1))
        while not self._is_free(f"{name}_{number}"):
            number += 1
        self._next[name] = number + 1
        return self._given(f"{name}_{number}")

    def _is_free(self, name: str) -> bool:
        return not (name in self._taken or name in self._promised or self._belongs(name))

    def _given(self, name: str) -> str:
        self._taken.add(name)
        return _marked(name, self._kind)

    def promise(self, names: Iterable[str]) -> None:
        """Keep names for those that want just these."""
        self._promised.update(set(map(identifier, names)) - self._taken)

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names from being used."""
        self._taken.update(map(plain, names))


def spell_symbol(name: str) -> str:
    """The variable that holds a size: its symbol, with ``_`` behind it where that is avoided."""
    stem = name.rstrip("_")
    avoided = _is_keyword(stem) or stem in _avoided.get().get("size", ())
    return _marked(f"{name}_" if avoided else name, "size")


def _is_keyword(name: str) -> bool:
    return iskeyword(name) or issoftkeyword(name)


# ---- marks --------------------------------------------------------------------------------------


@contextmanager
def avoiding(names: Avoided) -> Generator[None]:
    """Give none of these names out, to no kind of thing that must avoid them."""
    token = _avoided.set(names)
    try:
        yield
    finally:
        _avoided.reset(token)


def plain(text: str) -> str:
    """A text without marks."""
    return text if text.isascii() else text.translate(_PLAIN)


def plain_module(text: str) -> str:
    """As `plain`, for a long text with few marks: a third of the time."""
    return _MARK.sub(lambda mark: _PLAIN.get(ord(mark[0]), mark[0]), text)


def kind_of(name: str) -> Kind | None:
    """The kind of a marked name; None for one of the module's own."""
    if name.isascii():
        return None
    return next((_KINDS[char] for char in name if char in _KINDS), None)


def unmarked(text: str) -> str:
    """A text of the author's in which nothing is taken for a mark."""
    return "".join(" " if char in _KINDS else char for char in text)


def _marked(name: str, kind: Kind) -> str:
    return _MARKS[kind][name[0]] + name[1:]


# ---- spelling -----------------------------------------------------------------------------------


def mentioned(lines: Iterable[str]) -> set[str]:
    """Every name that lines of code mention, comments and strings left out."""
    names: set[str] = set()
    for line in lines:
        code = re.sub(r'"[^"]*"', "", line.split("# ")[0])
        names.update(re.findall(r"[^\W\d]\w*", code))
    return names


def identifier(text: str) -> str:
    """A Python identifier made of a diagram's name: ``bert.E`` is ``bert_E``."""
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def snake(name: str) -> str:
    """A function's name from a block's: ``GatedMLP`` is ``gated_mlp``, ``layer norm`` too."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z].)|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return identifier(re.sub(r"[\s\-]+", "_", spaced)).lower()


def camel(name: str) -> str:
    """A class's name from a block's: ``self attention`` is ``SelfAttention``, ``MHA`` stays."""
    parts = re.split(r"[\s_\-]+", name)
    return identifier("".join(part[:1].upper() + part[1:] for part in parts))


def safe(text: str) -> str:
    """A title inside a docstring or a comment: nothing that could end it or hide in it."""
    cleaned = "".join(char if char.isprintable() else " " for char in unmarked(text))
    return cleaned.replace("\\", "/").replace('"', "'")
