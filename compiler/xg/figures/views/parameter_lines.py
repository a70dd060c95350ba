"""The lines of a box that name the parameters in it, with what is sent for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xg.diagnostics.lazy_dataclass import dataclass
from xg.figures.model.figure import FigureNode
from xg.figures.model.richtext import RichText, plain
from xg.figures.views.communication import sent_tags
from xg.figures.views.forward import tagged_node
from xg.figures.views.notation import Notation
from xg.figures.views.sketch import Sent
from xg.ir.graph import Value


@dataclass(frozen=True, slots=True)
class TakenParameter:
    """A parameter that a node takes, as it is written, with what is sent for it there.

    `call` is the path of the call inside the node that takes it, if one does.
    """

    value: Value
    notation: Notation
    sent: frozenset[Sent]
    call: str = ""


def with_matrices(node: FigureNode, taken: Sequence[TakenParameter]) -> FigureNode:
    """Return the box of several nodes with the matrices that these take themselves.

    Tags are below them where the same is sent for all parameters, else beside those they are of.
    """
    matrices = _distinct(one for one in taken if not one.call and _is_matrix(one))
    if _is_even(taken):
        return with_tags(replace(node, detail=_listed(matrices)), taken)
    unsent = _listed([one for one in matrices if not one.sent])
    detail, *lines = *((unsent,) if unsent else ()), *_sent_lines(taken)
    return replace(node, detail=detail, lines=(*node.lines, *lines))


def with_tags(node: FigureNode, taken: Sequence[TakenParameter]) -> FigureNode:
    """Return a box with what is sent for parameters; it names them where they are not all."""
    if not _is_even(taken):
        return replace(node, lines=(*node.lines, *_sent_lines(taken)))
    tags = sent_tags(frozenset[Sent]().union(*(one.sent for one in taken)))
    return tagged_node(node, [tags] if tags else [])


def _is_even(taken: Iterable[TakenParameter]) -> bool:
    """Return whether the same is sent for all parameters; a frozen one has no gradient."""
    return len({one.sent for one in taken if not one.value.frozen}) < 2


def _sent_lines(taken: Iterable[TakenParameter]) -> list[RichText]:
    """Return a line for each call and each kind of tags, of the parameters that have some."""
    groups: dict[tuple[str, frozenset[Sent]], list[TakenParameter]] = {}
    for one in taken:
        if one.sent:
            groups.setdefault((one.call, one.sent), []).append(one)
    return [
        (
            *plain(f"{call}: " if call else ""),
            *_listed(_distinct(some)),
            *plain(" "),
            *sent_tags(sent),
        )
        for (call, sent), some in groups.items()
    ]


def _listed(taken: Sequence[TakenParameter]) -> RichText:
    return taken[0].notation.listed([one.value for one in taken]) if taken else ()


def _distinct(taken: Iterable[TakenParameter]) -> list[TakenParameter]:
    return list({one.value: one for one in taken}.values())


def _is_matrix(one: TakenParameter) -> bool:
    return len(one.notation.graph.types[one.value].shape) > 1
