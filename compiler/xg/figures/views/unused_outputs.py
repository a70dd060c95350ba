"""The gradient of an output beside a loss, which is zero where training takes the loss alone."""

from __future__ import annotations

from typing import Final

from xg.figures.model.richtext import RichText, muted, plain
from xg.ir.graph import Graph, Value

_WORDS: Final = muted(plain("0 if unused"))  # nothing outside of the block takes the output


def if_unused(value: Value, graph: Graph) -> RichText:
    """Return `0 if unused` for an output with axes beside one without, else nothing."""
    return _WORDS if _is_beside_a_loss(value, graph) else ()


def with_words(label: RichText, words: RichText) -> RichText:
    """Return a label with words behind it."""
    return (*label, *muted(plain(", ")), *words) if label and words else (*label, *words)


def _is_beside_a_loss(value: Value, graph: Graph) -> bool:
    types = [graph.types[output] for output in graph.outputs]
    has_loss = any(one.is_float and not one.shape for one in types)
    return has_loss and value in graph.outputs and bool(graph.types[value].shape)
