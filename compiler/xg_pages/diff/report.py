"""Write a difference as one JSON document, and as tables that people read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from xg.cost.communication import Sent, Way, total_formula
from xg.cost.table import Column, Evaluated, Table, align_columns, data_of, evaluate_dim
from xg.ir.dim import ZERO, Dim
from xg_pages.diff import Change, Difference, Edge

Data = Mapping[str, object]


def as_data(difference: Difference) -> Data:
    """Return the edges, collectives and costs before and after as data; null if absent."""
    return {
        "block": difference.after.program.main.block,
        "before": difference.before.name,
        "after": difference.after.name,
        "sizes": {name: list(each) for name, each in difference.sizes.items()},
        "edges": [_edge(each) for each in difference.edges],
        "collectives": [_collective(each) for each in difference.collectives],
        "cost": {name: _cost(difference, *each) for name, each in difference.costs.items()},
    }


def _edge(change: Change[Edge]) -> Data:
    edge = change.present
    return {
        "pass": edge.direction,
        "where": edge.where,
        "edge": edge.shown,
        "line": edge.line,
        "before": _state(change.before),
        "after": _state(change.after),
    }


def _state(edge: Edge | None) -> Data | None:
    if edge is None:
        return None
    making = edge.making
    return {
        "shape": edge.shape,
        "term_over": list(edge.terms),
        "made_by": edge.maker or None,
        "from": [name for name, _ in making.operands],
        "arguments": dict(making.arguments),
        "formula": making.formula or None,
    }


def _collective(change: Change[Sent]) -> Data:
    part = change.present
    return {
        "pass": part.direction,
        "collective": part.glyph,
        "over": part.over,
        "block": part.block,
        "of": part.of or None,
        "line": part.line,
        "before": change.before and change.before.formula("ring"),
        "after": change.after and change.after.formula("ring"),
    }


def _cost(difference: Difference, before: Dim, after: Dim) -> Data:
    return {
        "before": data_of(Evaluated(before, difference.before.report.numbers)),
        "after": data_of(Evaluated(after, difference.after.report.numbers)),
    }


# A difference as tables that people read.


_SENDING: Final[Mapping[str, Way]] = {"sent naive": "naive", "sent ring": "ring"}


def lines(difference: Difference) -> Iterator[str]:
    """Edges forward and backward, collectives, costs."""
    before, after = difference.before, difference.after
    yield f"{after.program.main.block}: {after.name} against {before.name}"
    if difference.is_empty:
        yield "no edge and no collective differs"
    if difference.sizes:
        sizes = (f"{name} = {new}, was {old}" for name, (old, new) in difference.sizes.items())
        yield f"sizes: {'; '.join(sizes)}"
    on_ranks = any(side.placed for side in (before, after))
    for direction in ("forward", "backward"):
        changed = [each for each in difference.edges if each.present.direction == direction]
        if changed:
            yield ""
            yield f"edges of the {direction} pass{', as one rank holds them' * on_ranks}"
            yield from Table(_EDGES, changed).lines("  ")
    if difference.collectives:
        yield ""
        yield "collectives, in elements around a ring"
        yield from align_columns([*map(_collective_row, difference.collectives)], indent="  ")
    yield ""
    yield f"cost{' of one rank' * on_ranks}, bytes of float32"
    yield from align_columns([*_costs(difference)], frozenset({1, 2, 3}), "  ")
    yield from _formulas(difference)


def sign(change: Change[Edge] | Change[Sent]) -> str:
    """``+`` for what appeared, ``-`` for what vanished, ``~`` for what changed."""
    if change.before is None:
        return "+"
    return "-" if change.after is None else "~"


def placements_text(change: Change[Edge]) -> tuple[str, str]:
    """The old and new placement of an edge: its shape on a rank, the axes over which it is a term.

    If both shapes read the same, the sizes in them have other definitions, and are spelled out.
    """
    before, after = change.before, change.after
    alike = before and after and before.shape == after.shape and before.dims != after.dims
    return _placement(before, spelled=bool(alike)), _placement(after, spelled=bool(alike))


def _placement(edge: Edge | None, *, spelled: bool) -> str:
    if edge is None:
        return ""
    terms = f", a term over {' and '.join(edge.terms)}" if edge.terms else ""
    return f"{edge.dims if spelled else edge.shape}{terms}"


def _making(change: Change[Edge]) -> str:
    """The other making of an edge: another operator, or the same from or with something else."""
    before, after = change.before, change.after
    if before is None or after is None:
        return ""
    made = () if before.maker == after.maker else (f"made by {after.maker}, was {before.maker}",)
    return "; ".join(made or change.made_otherwise)


_EDGES: tuple[Column[Change[Edge]], ...] = (
    Column("", None, sign),
    Column("where", None, lambda each: each.present.where or "·"),
    Column("edge", None, lambda each: each.present.shown),
    Column("before", None, lambda each: placements_text(each)[0]),
    Column("after", None, lambda each: placements_text(each)[1]),
    Column("", None, _making),
)


def _collective_row(change: Change[Sent]) -> tuple[str, ...]:
    part = change.present
    kind = f"{part.glyph} over {part.over}"
    amounts = [each.formula("ring") for each in (change.before, change.after) if each]
    place = f"line {part.line}"
    return (
        sign(change), part.direction, kind, part.block, part.of, place, " -> ".join(amounts)
    )  # fmt: skip


def _costs(difference: Difference) -> Iterator[tuple[str, ...]]:
    before, after = difference.before, difference.after
    yield ("", before.name, after.name, "difference")
    for name, (old, new) in difference.costs.items():
        left = evaluate_dim(old, before.report.numbers)
        right = evaluate_dim(new, after.report.numbers)
        if left is not None and right is not None and not _nothing_sent(name, old, new):
            yield (name, f"{left:,}", f"{right:,}", f"{right - left:+,}" if right != left else "0")


def _nothing_sent(name: str, old: Dim, new: Dim) -> bool:
    """Whether neither side sends: on one device there is nothing to tell."""
    return name in (*_SENDING, "ring bytes") and old == new == ZERO


def _formulas(difference: Difference) -> Iterator[str]:
    """The amounts without numbers, as formulas."""
    sides = (difference.before.report.numbers, difference.after.report.numbers)
    for name, dims in difference.costs.items():
        if all(evaluate_dim(*each) is not None for each in zip(dims, sides, strict=True)):
            continue
        if _nothing_sent(name, *dims):
            continue
        old, new = map(str, dims)
        if name in _SENDING:
            way = _SENDING[name]
            sent = difference.before.report.sent, difference.after.report.sent
            old, new = (total_formula(each, way) for each in sent)
        if name != "ring bytes":  # four times the elements
            yield f"  {name}: {old}" + (f" -> {new}" if new != old else ", as before")
