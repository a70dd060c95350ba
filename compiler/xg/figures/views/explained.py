"""Symbols that no file has: what operators keep, and values after which a label comes later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xg.figures.model.figure import ExplainedSymbol, NodeKind
from xg.figures.views.notation import Notation
from xg.ir.graph import Value

_KEPT: Final = {
    "lse": "log of the sum of exponentials",
    "mean": "mean that is taken off",
    "center": "mean that is taken off",
    "rstd": "1 / standard deviation",
    "trained": "1 where statistics are the batch's, 0 where running ones",
    "keep": "mask: 1 where dropout keeps",
}
_NUMBERED: Final = "has no label in the file: named after the next one"


def explained(values: Iterable[Value], notation: Notation) -> tuple[ExplainedSymbol, ...]:
    """Explain each symbol of what operators keep, and one of those that have a number."""
    found: dict[str, ExplainedSymbol] = {}
    for value in values:
        symbol = notation.symbol(value)
        if value.role == "cache" and value.name in _KEPT:
            found.setdefault(value.name, ExplainedSymbol(NodeKind.SAVED, symbol, _KEPT[value.name]))
        elif symbol and value.role != "cache" and value in notation.kept:
            found.setdefault("", ExplainedSymbol(NodeKind.TENSOR, symbol, _NUMBERED))
    return tuple(found.values())
