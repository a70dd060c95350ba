"""Gradients that are summed over ranks while the backward pass continues, whole or in slices.

The gradients of blocks are collected until there is enough of them to be worth sending at once;
then their sum is begun, and awaited at the end. The sums are those of every gradient by itself, bit
for bit.

The last bucket leaves in two parts if it is large: terms, their joined array and gloo's copy were
alive at once. Gradients are views of the bucket afterwards; DDP holds two arrays and copies back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias, TypeVar

from xg_runtime.ranks.array_ops import Tensor, array_ops, cut
from xg_runtime.ranks.collectives import Handle, start_all_reduce, start_reduce_scatter
from xg_runtime.ranks.local import size
from xg_runtime.ranks.mesh import traced_mesh

T = TypeVar("T", bound=Tensor)

_Begun: TypeAlias = "tuple[list[tuple[int, ...]], Handle[Tensor]]"

BUCKET: Final = 25 * 2**20  # bytes
# A last bucket of more is sent in two parts, one behind the other: terms, the array that they are
# joined in and often a copy of that are held at once, and there is no more work to go on beside it.
HALVED: Final = 2 * 2**20  # bytes


@dataclass(frozen=True, slots=True)
class _Term:
    """Hold this rank's term of a sum, sliced along `axis` (from the end), or not at all at 0."""

    name: str
    array: Tensor
    axis: int

    @property
    def bytes(self) -> int:
        return prod(self.array.shape) * self.array.itemsize


def _no_terms() -> list[_Term]:
    return []  # `torch.compile` does not trace a call of `list[_Term]`


@dataclass(slots=True)
class _Bucket:
    """Terms of sums over one mesh axis, of one type and kind, in the order in which they came."""

    over: str
    is_cut: bool
    terms: list[_Term] = field(default_factory=_no_terms)
    bytes: int = 0

    def put(self, term: _Term) -> None:
        self.terms.append(term)
        self.bytes += term.bytes

    def take_half(self) -> _Bucket:
        """Take the first terms out, until no more than half of the bytes is left."""
        half = _Bucket(self.over, self.is_cut)
        while half.bytes < self.bytes:
            first = self.terms.pop(0)
            self.bytes -= first.bytes
            half.put(first)
        return half


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
        """Add the terms of earlier passes; before the last pass, keep the sums and return {}."""
        together = {n: self.terms[n] + t if n in self.terms else t for n, t in terms.items()}
        if self.is_last:
            return together
        self.terms.update(together)
        return {}


_HELD: ContextVar[_Held | None] = ContextVar("held", default=None)


@contextlib.contextmanager
def holding(terms: dict[str, Tensor], *, is_last: bool) -> Generator[None]:
    """Let `Sums` keep its terms in `terms` inside, and send the totals in the last pass.

    Only what the last pass gives is then a gradient: of all passes together.
    """
    before = _HELD.set(_Held(terms, is_last))
    try:
        yield
    finally:
        _HELD.reset(before)


class Sums(dict[str, T]):
    """Collect gradients by name; each is complete after `finish`, added to an earlier one.

    Every rank must add the same names in the same order. `bucket` is how many bytes are sent at
    once, at least; slices of the sums of `held` names wait for a last pass, as whole sums do.
    """

    def __init__(self, bucket: int = BUCKET, *, held: Container[str] = ()) -> None:
        """Start with no gradients."""
        super().__init__()
        self._limit = bucket
        self._waiting = held
        self._open: dict[tuple[str, str, bool], _Bucket] = {}
        self._sent: list[_Sent] = []

    def add(self, over: str, terms: Mapping[str, T]) -> None:
        """This rank's terms of gradients that are sums over the ranks of a mesh axis."""
        held = None if traced_mesh() else _HELD.get()
        if held is not None:
            terms = held.with_earlier(terms)
        for name, term in terms.items():
            self._put(over, _Term(name, term, 0))

    def scatter(self, over: str, terms: Mapping[str, tuple[T, int]]) -> None:
        """Add terms of gradients whose slice this rank gets, along an axis from the end.

        Most are not held for a last pass: whole terms take more room than slices of sums.
        """
        held = None if traced_mesh() else _HELD.get()
        if held is not None:
            waiting = {n: term for n, (term, _) in terms.items() if n in self._waiting}
            now = held.with_earlier(waiting)
            kept = {n: each for n, each in terms.items() if n not in waiting}
            terms = kept | {n: (term, terms[n][1]) for n, term in now.items()}
        for name, (term, axis) in terms.items():
            self._put(over, _Term(name, term, axis))

    def finish(self) -> None:
        """Await all sums."""
        left = list(self._open.values())
        self._open.clear()
        if large := [bucket for bucket in left if bucket.bytes > HALVED]:
            for bucket in large:
                self._send(bucket.take_half())
            self._await()
        for bucket in left:
            self._send(bucket)
        self._await()

    def _put(self, over: str, term: _Term) -> None:
        key = over, str(term.array.dtype), term.axis < 0
        bucket = self._open.setdefault(key, _Bucket(over, term.axis < 0))
        bucket.put(term)
        if bucket.bytes >= self._limit:
            self._send(self._open.pop(key))

    def _send(self, bucket: _Bucket) -> None:
        """Begin sums, if there are any; the terms are donated, the results belong to the caller."""
        if not bucket.terms:
            return
        names = [term.name for term in bucket.terms]
        shapes, begun = (_slices if bucket.is_cut else _start_full_sum)(bucket.over, bucket.terms)
        self._sent.append(_Sent(names, shapes, begun))

    def _await(self) -> None:
        for sent in self._sent:
            whole = sent.sum.wait()
            start = 0
            for name, shape in zip(sent.names, sent.shapes, strict=True):
                stop = start + prod(shape)
                part = whole[start:stop].reshape(shape)
                self[name] = self[name] + part if name in self else part
                start = stop
        self._sent.clear()


def _start_full_sum(over: str, terms: list[_Term]) -> _Begun:
    shapes = [tuple(term.array.shape) for term in terms]
    flat = array_ops(terms[0].array).flat([term.array for term in terms])
    terms.clear()
    return shapes, start_all_reduce(flat, over, donate=True)


def _slices(over: str, terms: list[_Term]) -> _Begun:
    ranks = size(over)
    parts = [cut(term.array, ranks, term.axis, over) for term in terms]
    shapes = [tuple(part.shape[1:]) for part in parts]
    flat = array_ops(parts[0]).flat([part[place] for place in range(ranks) for part in parts])
    terms.clear()
    parts.clear()
    return shapes, start_reduce_scatter(flat, over, -1, donate=True)
