"""Parameters that rest in shards, gathered in bundles while the code that reads them runs.

The shards of one layer travel in one collective for each mesh axis and type, and the next layer's
is begun before it is needed. The numbers are those of every parameter gathered by itself.

A backward pass begins with everything saved, so there the second layer is not begun before half of
the first has been read: by then its functions have freed what they have read.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from xg_runtime.held import Held
from xg_runtime.ranks.array_ops import Tensor, array_ops, join
from xg_runtime.ranks.collectives import Handle, start_all_gather
from xg_runtime.ranks.local import size

T = TypeVar("T", bound=Tensor)
Gathers = Mapping[str, tuple[str, int]]  # by name: the mesh axis, and the axis that it cuts


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Shards under way: their names, one after the other, and what comes back."""

    over: str
    names: list[str]
    wholes: Handle[Tensor]


class Gathered(dict[str, T]):
    """Hold this rank's shards by name; `whole` gathers a parameter of `gathers`.

    Parameters are gathered by layer: by the round of a row that they belong to, in the order of
    `gathers`. A layer is let go when one is read that it does not contain, so each must be read in
    one stretch, on every rank in the same order, and every name at least once. Those of `held`
    stay: all passes over the same `Held` shards gather them once.
    """

    def __init__(
        self,
        shards: Mapping[str, T],
        gathers: Gathers,
        *,
        held: Container[str] = (),
        last_first: bool = False,
    ) -> None:
        """Send nothing yet; a backward pass reads layers `last_first`."""
        super().__init__(shards)
        self._gathers = gathers
        self._held = held
        self._there: dict[str, T] = shards.wholes if isinstance(shards, Held) else {}
        self._names: dict[str, list[str]] = {}
        for name in gathers:
            if name not in self._there:
                self._names.setdefault(layer_of(name), []).append(name)
        order = list(self._names)
        inner = [layer for layer in order if layer]
        order = [*(layer for layer in order if not layer), *(inner[::-1] if last_first else inner)]
        self._next = dict(itertools.pairwise(order))
        self._fullest = inner[-1] if inner and last_first else None
        self._begun: dict[str, list[_Bundle]] = {}
        self._wholes: dict[str, dict[str, T]] = {}
        self._read: dict[str, set[str]] = {}  # the names of each layer

    def whole(self, name: str) -> T:
        """A parameter with the shards of all ranks."""
        if name in self._there:
            return self._there[name]
        layer = layer_of(name)
        if layer not in self._wholes:
            self._begin(layer)
            for other in [each for each in self._wholes if not _contains(each, layer)]:
                del self._wholes[other]
            self._wholes[layer] = dict(self._receive_layer(layer))
        self._read.setdefault(layer, set()).add(name)
        following = self._next.get(layer)
        if following is not None and following not in self._read and self._is_time(layer):
            self._begin(following)
        return self._wholes[layer][name]

    def _is_time(self, layer: str) -> bool:
        """Return whether to begin the next layer: at once, or halfway through the fullest one."""
        return layer != self._fullest or 2 * len(self._read[layer]) >= len(self._names[layer])

    def _begin(self, layer: str) -> None:
        if layer in self._begun or layer in self._wholes:
            return
        groups: dict[tuple[str, str], list[str]] = {}
        for name in self._names[layer]:
            groups.setdefault((self._gathers[name][0], str(self[name].dtype)), []).append(name)
        self._begun[layer] = [
            _Bundle(over, names, start_all_gather(self._flat(names), over, -1, donate=True))
            for (over, _), names in groups.items()
        ]

    def _flat(self, names: list[str]) -> Tensor:
        parts = [self[name] for name in names]
        return array_ops(parts[0]).flat(parts)

    def _receive_layer(self, layer: str) -> Iterator[tuple[str, T]]:
        for bundle in self._begun.pop(layer):
            ranks = size(bundle.over)
            wholes = bundle.wholes.wait().reshape(ranks, -1)
            start = 0
            for name in bundle.names:
                shape = tuple(self[name].shape)
                stop = start + prod(shape)
                parts = wholes[:, start:stop].reshape(ranks, *shape)
                whole = join(parts, self._gathers[name][1], bundle.over)
                if name in self._held:
                    self._there[name] = whole
                yield name, whole
                start = stop


def layer_of(name: str) -> str:
    """The layer of a parameter: its path up to the first round of a row, empty where none is."""
    segments = name.split(".")
    rounds = next((place for place, each in enumerate(segments) if each.isdecimal()), None)
    return "" if rounds is None else ".".join(segments[: rounds + 1])


def _contains(outer: str, inner: str) -> bool:
    return not outer or inner == outer or inner.startswith(f"{outer}.")
