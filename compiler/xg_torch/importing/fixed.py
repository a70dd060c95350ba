"""The part of a model that depends on sizes alone: positions, masks and tables, as NumPy runs it.

Such a part has no weights and no inputs, so its numbers at given sizes are its whole meaning.
`recognise` finds out what it is by looking at them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from xg.diagnostics.lazy_dataclass import dataclass
from xg.ir.dim import Dim
from xg_torch.importing.archive import Array
from xg_torch.importing.errors import Unspeakable
from xg_torch.importing.exported import Argument, Ref, reads, within
from xg_torch.importing.fixed_rules import RULES, WHOLE

LITERAL_AT_MOST: Final = 4096  # sizes beyond every number of a table must be small enough to try


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that depends on sizes alone, by its name; its shape is known."""

    name: str
    shape: tuple[Dim, ...]


class FixedPart:
    """The calls of a model that depend on sizes alone, to be run at any sizes."""

    def __init__(self, limits: Mapping[str, tuple[int, int | None]]) -> None:
        self.limits = limits
        self.constants: dict[str, Array] = {}
        self.calls: dict[str, tuple[str, Mapping[str, Argument]]] = {}
        self.rough: set[str] = set()  # values that are no more exact than float32

    def constant(self, name: str, array: Array) -> None:
        """Note a buffer or a lifted constant."""
        self.constants[name] = array

    def call(self, name: str, rule: str, args: Mapping[str, Argument]) -> None:
        """Note a call; its tensors are names of this part."""
        self.calls[name] = (rule, args)

    def cast_from(self, name: str) -> str:
        """The value of which this has the numbers, in another element type."""
        while name in self.calls and self.calls[name][0] in ("to", "_to_copy"):
            (name,) = reads(self.calls[name][1])
        return name

    def __contains__(self, name: str) -> bool:
        return name in self.constants or name in self.calls

    def trials(self, name: str, reach: int = 0) -> list[dict[str, int]]:
        """Sizes to look at a value at: small ones, and one beyond every number that it mentions.

        A window of 1,000 positions shows only where there are more than that; a `reach` is a number
        that follows from what it mentions.
        """
        needed = self._needed(name)
        symbols = sorted({s for each in needed for s in _symbols(self.calls.get(each))})
        literals = {n for each in needed for n in _literals(self.calls.get(each))}
        beyond = max((n for n in (*literals, reach) if n < WHOLE), default=0)
        if beyond > LITERAL_AT_MOST:
            raise Unspeakable(f"it depends on the number {beyond}, too large to be tried")
        trials = [
            {
                symbol: self._within(symbol, start + 2 * place)
                for place, symbol in enumerate(symbols)
            }
            for start in (3, 6, 11)
        ]
        for large in symbols:
            trials.append({**trials[0], large: self._within(large, beyond + 3)})
        return trials

    def fractions(self, name: str) -> list[float]:
        """The numbers with a point that a value is computed from, in order."""
        found: list[float] = []
        for each in self._needed(name):
            array = self.constants.get(each)
            if array is not None and array.dtype.kind == "f" and array.size == 1:
                found.append(float(array.reshape(())))
            found += [x for x in _items(self.calls.get(each)) if isinstance(x, float)]
        return found

    def _within(self, symbol: str, wanted: int) -> int:
        return within(self.limits.get(symbol, (0, None)), wanted)

    def run(self, name: str, sizes: Mapping[str, int]) -> Array:
        """The numbers of a value where its symbols have these sizes."""
        arrays: dict[str, Array] = {}
        with np.errstate(all="ignore"):
            for each in self._needed(name):
                if each in self.constants:
                    arrays[each] = self.constants[each]
                else:
                    rule, args = self.calls[each]
                    values = {key: _value(arg, arrays, sizes) for key, arg in args.items()}
                    try:
                        arrays[each] = np.asarray(RULES[rule](values))
                    except (TypeError, ValueError, IndexError, KeyError) as error:
                        raise Unspeakable(f"{rule} of constants cannot be followed") from error
        if any(array.dtype.kind == "f" and array.itemsize < 8 for array in arrays.values()):
            self.rough.add(name)
        return arrays[name]

    def _needed(self, name: str) -> list[str]:
        """A value and all it is made of, each behind its parts; calls are noted in that order."""
        needed = {name}
        for each in reversed(self.calls):
            if each in needed:
                needed |= set(reads(self.calls[each][1]))
        constants = [each for each in self.constants if each in needed]
        return [*constants, *(each for each in self.calls if each in needed)]


def _value(arg: Argument, found: Mapping[str, NDArray[Any]], sizes: Mapping[str, int]) -> object:
    match arg:
        case Ref(name):
            return found[name]
        case Dim():
            return arg.evaluate(sizes)
        case tuple():
            return [_value(item, found, sizes) for item in arg]
        case _:
            return arg


def _items(call: tuple[str, Mapping[str, Argument]] | None) -> Iterator[Argument]:
    """The arguments of a call, or the items of lists of such; lists of lists do not occur."""
    for arg in call[1].values() if call else ():
        yield from arg if isinstance(arg, tuple) else (arg,)


def _symbols(call: tuple[str, Mapping[str, Argument]] | None) -> Iterator[str]:
    for item in _items(call):
        if isinstance(item, Dim):
            yield from item.symbols()


def _literals(call: tuple[str, Mapping[str, Argument]] | None) -> Iterator[int]:
    for item in _items(call):
        number = item.constant if isinstance(item, Dim) else item
        if isinstance(number, int) and not isinstance(number, bool):
            yield abs(number)
