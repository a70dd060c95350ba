"""Gradients that are summed over ranks while the backward pass continues, whole or in slices.

The gradients of blocks are collected until there is enough of them to be worth sending at once;
then their sum is begun, and awaited at the end. The sums are those of every gradient by itself, bit
for bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeVar

from xg_runtime.ranks.array_ops import Tensor, array_ops
from xg_runtime.ranks.collectives import Handle, start_all_reduce, start_reduce_scatter
from xg_runtime.ranks.local import size
from xg_runtime.ranks.split_axis import cut

T = TypeVar("T", bound=Tensor)

BUCKET: Final = 25 * 2**20  # bytes


@dataclass(slots=True)
class _Bucket:
    """Terms of sums over one mesh axis, of one type, in the order in which they came."""

    names: list[str] = field(default_factory=list[str])
    terms: list[Tensor] = field(default_factory=list[Tensor])
    bytes: int = 0


@dataclass(slots=True)
class _Cut(_Bucket):
    """Terms of which every rank gets a slice of the sum; `axes` are those that ranks cut."""

    axes: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class _Sent:
    """A sum that was begun, of terms of these names and shapes, one after the other."""

    names: list[str]
    shapes: list[tuple[int, ...]]
    sum: Handle[Tensor]


@dataclass(frozen=True, slots=True)
class _Held:
    """Terms of earlier backward passes, by name, and whether this pass is the last."""

    terms: dict[str, Tensor]
    is_last: bool

    def with_earlier(self, terms: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Terms with those of earlier passes; nothing, and they are kept, before the last."""
        together = {n: self.terms[n] + t if n in self.terms else t for n, t in terms.items()}
        if self.is_last:
            return together
        self.terms.update(together)
        return {}


_HELD: ContextVar[_Held | None] = ContextVar("held", default=None)


@contextlib.contextmanager
def holding(terms: dict[str, Tensor], *, is_last: bool) -> Generator[None]:
    """Let `Sums` keep its terms in `terms` inside, and send them with those of the last pass.

    Only what the last pass gives is then a gradient: of all passes together.
    """
    before = _HELD.set(_Held(terms, is_last))
    try:
        yield
    finally:
        _HELD.reset(before)


class Sums(dict[str, T]):
    """Gradients by name; those of `add` are there after `finish`, added to earlier ones.

    Every rank must add the same names in the same order. `bucket` is how many bytes are sent at
    once, at least; slices of the sums of `held` names wait for a last pass, as whole sums do.
    """

    def __init__(self, bucket: int = BUCKET, *, held: Container[str] = ()) -> None:
        """Nothing yet."""
        super().__init__()
        self._limit = bucket
        self._waiting = held
        self._open: dict[tuple[str, str], _Bucket] = {}
        self._cut: dict[tuple[str, str], _Cut] = {}
        self._sent: list[_Sent] = []

    def add(self, over: str, terms: Mapping[str, T]) -> None:
        """This rank's terms of gradients that are sums over the ranks of a mesh axis."""
        held = _HELD.get()
        if held is not None:
            terms = held.with_earlier(terms)
        for name, term in terms.items():
            key = over, str(term.dtype)
            bucket = self._open.setdefault(key, _Bucket())
            bucket.names.append(name)
            bucket.terms.append(term)
            bucket.bytes += prod(term.shape) * term.itemsize
            if bucket.bytes >= self._limit:
                self._send(over, self._open.pop(key))

    def scatter(self, over: str, terms: Mapping[str, tuple[T, int]]) -> None:
        """This rank's terms of gradients of which it gets a slice, along an axis from the end.

        Most are not held for a last pass: whole terms take more room than slices of sums.
        """
        held = _HELD.get()
        if held is not None:
            waiting = {n: term for n, (term, _) in terms.items() if n in self._waiting}
            now = held.with_earlier(waiting)
            kept = {n: each for n, each in terms.items() if n not in waiting}
            terms = kept | {n: (term, terms[n][1]) for n, term in now.items()}
        for name, (term, axis) in terms.items():
            key = over, str(term.dtype)
            bucket = self._cut.setdefault(key, _Cut())
            bucket.names.append(name)
            bucket.terms.append(term)
            bucket.axes.append(axis)
            bucket.bytes += prod(term.shape) * term.itemsize
            if bucket.bytes >= self._limit:
                self._scatter(over, self._cut.pop(key))

    def finish(self) -> None:
        """Await all sums."""
        for (over, _), bucket in self._open.items():
            self._send(over, bucket)
        for (over, _), bucket in self._cut.items():
            self._scatter(over, bucket)
        self._open.clear()
        self._cut.clear()
        for sent in self._sent:
            whole = sent.sum.wait()
            start = 0
            for name, shape in zip(sent.names, sent.shapes, strict=True):
                stop = start + prod(shape)
                part = whole[start:stop].reshape(shape)
                self[name] = self[name] + part if name in self else part
                start = stop
        self._sent.clear()

    def _send(self, over: str, bucket: _Bucket) -> None:
        """Begin a sum; its terms are donated, and the results belong to the caller."""
        shapes = [tuple(term.shape) for term in bucket.terms]
        flat = array_ops(bucket.terms[0]).flat(bucket.terms)
        bucket.terms.clear()
        self._sent.append(_Sent(bucket.names, shapes, start_all_reduce(flat, over, donate=True)))

    def _scatter(self, over: str, bucket: _Cut) -> None:
        """Begin a sum of which every rank gets a slice; its terms are donated too."""
        ranks = size(over)
        pairs = zip(bucket.terms, bucket.axes, strict=True)
        parts = [cut(term, ranks, axis, over) for term, axis in pairs]
        shapes = [tuple(part.shape[1:]) for part in parts]
        ops = array_ops(parts[0])
        flat = ops.flat([part[place] for place in range(ranks) for part in parts])
        bucket.terms.clear()
        parts.clear()
        begun = start_reduce_scatter(flat, over, -1, donate=True)
        self._sent.append(_Sent(bucket.names, shapes, begun))
