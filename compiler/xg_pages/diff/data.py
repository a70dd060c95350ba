"""A difference as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping

from xg.cli.render.table import Evaluated, data_of
from xg.cost.communication import SHORT, Sent
from xg.ir.dim import Dim
from xg_pages.diff import Change, Difference, Edge

Data = Mapping[str, object]


def as_data(difference: Difference) -> Data:
    """Edges, collectives and costs, each before and after; null where there is none."""
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
        "collective": SHORT[part.kind],
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
