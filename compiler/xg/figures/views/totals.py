"""How much is sent for all parameters of a program together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xg.figures.views.sketch import Move, Sent, Sketch
from xg.ir.dim import ONE, ZERO, Dim, product
from xg.ir.graph import Graph, Program
from xg.ir.instances import Symbols, inside


def totals(ranks: Program, known: Mapping[str, Sketch]) -> dict[Sent, tuple[str, str]]:
    """Return for every kind of collective how many parameters it serves, and their elements."""
    dims: dict[Sent, tuple[Dim, Dim]] = {}
    for move, graph, symbols, times in _moves(ranks, known):
        shape = graph.sizes.fold_shape(graph.types[move.value].shape)
        elements = product(shape).substitute(symbols) * times
        for sent in _kinds(move):
            number, volume = dims.get(sent, (ZERO, ZERO))
            dims[sent] = number + times, volume + elements
    return {sent: (str(number), _spelled(volume)) for sent, (number, volume) in dims.items()}


def _spelled(volume: Dim) -> str:
    return f"({volume})" if len(volume.terms) > 1 else str(volume)


def _kinds(move: Move) -> Iterator[Sent]:
    if move.forward:
        yield move.forward, move.axis, True
    if move.backward:
        yield move.backward, move.axis, False


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
