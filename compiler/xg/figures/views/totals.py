"""How much is sent for all parameters of a program together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from xg.figures.views.factors import in_order
from xg.figures.views.sketch import Move, Sent, Sketch
from xg.ir.dim import ONE, ZERO, Dim, Monomial, product
from xg.ir.graph import Graph, Program
from xg.ir.walk import Symbols, inside

_PRODUCT: Final = re.compile(r"[^\W\d]\w*(?:\^\d+)?(?:\*[^\W\d]\w*(?:\^\d+)?)+")
_ALONE: Final = re.compile(r"(?<![\w*/^])(\d+)\*([^\W\d]\w*(?:\^\d+)?)(?![\w*/^])")


def totals(ranks: Program, known: Mapping[str, Sketch]) -> dict[Sent, tuple[str, str]]:
    """Return for every kind of collective how many parameters it serves, and their elements."""
    dims: dict[Sent, tuple[Dim, Dim]] = {}
    for move, graph, symbols, times in _moves(ranks, known):
        shape = graph.sizes.fold_shape(graph.types[move.value].shape)
        elements = product(shape).substitute(symbols) * times
        for sent in move.sent():
            number, volume = dims.get(sent, (ZERO, ZERO))
            dims[sent] = number + times, volume + elements
    return {
        sent: (in_usual_order(number), _spelled(volume)) for sent, (number, volume) in dims.items()
    }


def _spelled(volume: Dim) -> str:
    text = in_usual_order(volume)
    return f"({text})" if len(volume.terms) > 1 else text


def in_usual_order(size: Dim) -> str:
    """Return a sum as people write it: high degrees first, squares before products.

    >>> from xg.ir.dim import symbol
    >>> D, D_ff = symbol("D"), symbol("D_ff")
    >>> in_usual_order(D * 2 + D * D_ff * 2 + D * D * 4)
    '4D^2 + 2*D*D_ff + 2D'
    """
    terms = sorted(size.terms, key=lambda term: _degrees(term[0]), reverse=True)
    text = _PRODUCT.sub(_ordered, str(Dim(tuple(terms))))
    return _ALONE.sub(r"\1\2", text)


def _ordered(product: re.Match[str]) -> str:
    return "*".join(in_order(product[0].split("*")))


def _degrees(monomial: Monomial) -> tuple[int, int]:
    powers = [power for _, power in monomial if power > 0]
    return sum(powers), max(powers, default=0)


def _moves(
    ranks: Program, known: Mapping[str, Sketch]
) -> Iterator[tuple[Move, Graph, Symbols, Dim]]:
    """Yield every move of a parameter, in the sizes of the entry block, and how often it is."""
    waiting: list[tuple[str, Symbols, Dim]] = [(ranks.entry, {}, ONE)]
    while waiting:
        key, symbols, times = waiting.pop()
        sketch = known[key]
        for move in sketch.moves:
            yield move, sketch.graph, symbols, times
        for call in sketch.graph.named_calls():
            callee = known[call.callee].graph
            count = ONE if call.count is None else sketch.graph.sizes.fold(call.count)
            below = inside(call, sketch.graph, callee, symbols)
            waiting.append((call.callee, below, times * count.substitute(symbols)))
