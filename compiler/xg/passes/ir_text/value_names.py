"""Names of values in the printed IR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from xg.diagnostics.lazy_dataclass import dataclass, field
from xg.passes.ir_text.grammar import LINE_WORDS


@dataclass(slots=True)
class ValueNames:
    """A name for everything that is asked for: the author's, made unique, or a number."""

    _names: dict[Hashable, str] = field(default_factory=dict[Hashable, str])
    _taken: Counter[str] = field(default_factory=Counter[str])

    def of(self, thing: Hashable, name: str | None) -> str:
        """The name of a thing, which would like to be called `name`."""
        if thing not in self._names:
            wish = name or "%"
            self._taken[wish] += 1
            number = self._taken[wish]
            plain = name is not None and number == 1 and name not in LINE_WORDS
            mark = "" if wish == "%" else "~"
            self._names[thing] = wish if plain else f"{wish}{mark}{number}"
        return self._names[thing]

    def call(self, thing: Hashable, name: str) -> None:
        """Give a thing a name that no author can choose."""
        self._names[thing] = name


def bare(name: str) -> str | None:
    """The name that a thing was given, None where it has but a number."""
    return None if name.startswith("%") else name.partition("~")[0]
