"""Which axes are one size: what a model forces to be equal, and what a size splits into.

Numbers that happen to be equal are not one size: a width of 8 and 8 heads stay apart, because
nothing adds or multiplies them along each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from xg.ir.dim import Dim, DimError, product

Size = int  # a size by its number here; `find` gives the representative of equal ones


class SizeClasses:
    """Every size of a model, in classes of equal ones."""

    def __init__(self) -> None:
        self.dims: list[Dim] = []  # in numbers and torch's symbols
        self._parent: list[Size] = []
        self._symbolic: dict[Dim, Size] = {}
        self._parts: dict[Size, list[tuple[Size, ...]]] = {}
        self.hints: dict[Size, dict[str, int]] = {}

    def make(self, dim: Dim) -> Size:
        """A size: a new one for a number, the one there is for a symbol."""
        if dim.constant is None and dim in self._symbolic:
            return self.find(self._symbolic[dim])
        size = len(self.dims)
        self.dims.append(dim)
        self._parent.append(size)
        if dim.constant is None:
            self._symbolic[dim] = size
        return size

    def find(self, size: Size) -> Size:
        """The representative of all sizes that are equal to this one."""
        while self._parent[size] != size:
            self._parent[size] = self._parent[self._parent[size]]
            size = self._parent[size]
        return size

    def dim(self, size: Size) -> Dim:
        """A size in numbers and torch's symbols."""
        return self.dims[size]

    def equal(self, one: Size | None, other: Size | None) -> None:
        """Note that two sizes are one, unless one is 1; what both split into is equal too."""
        waiting = [] if one is None or other is None else [(one, other)]
        while waiting:
            a, b = (self.find(size) for size in waiting.pop())
            if a == b:
                continue
            a, b = min(a, b), max(a, b)
            self._parent[b] = a
            for word, weight in self.hints.pop(b, {}).items():
                self.hint(a, word, weight)
            for parts in self._parts.pop(b, []):
                same = self._like(a, [self.dim(part) for part in parts])
                if same is None:
                    self._parts.setdefault(a, []).append(parts)
                else:
                    waiting += zip(same, parts, strict=True)

    def hint(self, size: Size, word: str, weight: int) -> None:
        """Propose a name for a size; the heaviest proposal wins."""
        words = self.hints.setdefault(self.find(size), {})
        words[word] = max(weight, words.get(word, 0))

    def split(self, size: Size, first: Dim) -> tuple[Size, Size]:
        """A size as a product: `first` of the rest. The same split gives the same parts."""
        size = self.find(size)
        dims = [first, self.dim(size) / first]
        sizes = self._like(size, dims)
        if sizes is None:
            sizes = tuple(self.make(dim) for dim in dims)
            self._parts.setdefault(size, []).append(sizes)
        return sizes[0], sizes[1]

    def join(self, parts: Sequence[Size]) -> Size:
        """The size that is the product of others."""
        if len(parts) == 1:
            return self.find(parts[0])
        roots = [self.find(part) for part in parts]
        for size, ways in self._parts.items():
            if any([self.find(part) for part in way] == roots for way in ways):
                return self.find(size)
        joined = self.make(product(self.dim(part) for part in parts))
        self._parts.setdefault(self.find(joined), []).append(tuple(parts))
        return self.find(joined)

    def parts(self, size: Size) -> list[tuple[Size, ...]]:
        """Every way in which a size is split."""
        return [
            tuple(self.find(part) for part in way) for way in self._parts.get(self.find(size), [])
        ]

    def is_part(self, size: Size) -> bool:
        """Whether some size is split into this one and others."""
        ways = [way for every in self._parts.values() for way in every]
        return any(self.find(size) == self.find(part) for way in ways for part in way)

    def _like(self, size: Size, dims: Sequence[Dim]) -> tuple[Size, ...] | None:
        for way in self._parts.get(size, []):
            if [self.dim(part) for part in way] == list(dims):
                return way
        return None


def divides(part: Dim, whole: Dim) -> bool:
    """Whether `whole` is `part` times something that is a size for all sizes of its symbols."""
    try:
        rest = whole / part
    except DimError:
        return False
    whole_powers = all(power > 0 for monomial, _ in rest.terms for _, power in monomial)
    whole_numbers = all(coefficient.denominator == 1 for _, coefficient in rest.terms)
    return whole_powers and whole_numbers and (rest.constant is None or rest.constant > 0)
