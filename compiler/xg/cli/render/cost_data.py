"""`xg cost --json`: every amount as formula and number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.cli.render import cost_tables as tables
from xg.cli.render.amounts import Evaluated, data_of
from xg.cli.render.table import Column, Table
from xg.cost.communication import Sent
from xg.cost.report import CostReport, Round

Data = Mapping[str, object]


def as_data(report: CostReport) -> Data:
    """One document: blocks, then what a rank sends, holds, and could compute again."""
    plan = report.placed.plan if report.placed else None
    layers: tuple[Column[Round], ...] = (
        Column(None, "block", lambda each: each.name),
        Column(None, "line", lambda each: each.line),
        *tables.sending(report.numbers, _sent),
    )
    return {
        "block": report.cost.program.main.block,
        "dtype": report.dtype,
        "plan": plan.name if plan else None,
        "mesh": dict(report.mesh),
        "sizes": dict(sorted(report.numbers.items())),
        "total": _total(report),
        "blocks": [
            {
                "block": block.graph.key,
                "total": dict(zip(_AMOUNTS, map(str, block.total.dims()), strict=True)),
                "rows": tables.operators(block).data(),
            }
            for block in report.blocks
        ],
        "collectives": tables.collectives(report).data(),
        "layers": Table(layers, report.rounds).data(),
        "memory_bytes": {
            key: data_of(Evaluated(dim, report.numbers)) for _, key, dim in tables.memory(report)
        },
        "largest_array": _largest(report),
        "recompute": tables.policies(report).data(),
        "estimates": tables.estimates(report).data(),
    }


def _report_sent(report: CostReport) -> Sequence[Sent]:
    return report.sent


def _sent(layer: Round) -> Sequence[Sent]:
    return layer.sent


_AMOUNTS = tuple(tables.AMOUNTS.values())


def _total(report: CostReport) -> Data:
    amounts = (data_of(Evaluated(dim, report.numbers)) for dim in report.total.dims())
    (sent,) = Table(tables.sending(report.numbers, _report_sent), [report]).data()
    return {**dict(zip(_AMOUNTS, amounts, strict=True)), **sent}


def _largest(report: CostReport) -> Data | None:
    """The largest array of a single step; null where nothing is made."""
    one = report.largest
    return one and {
        "bytes": data_of(Evaluated(one.size, report.numbers)),
        "operator": one.name,
        "block": one.block,
        "line": one.line,
        "pass": one.direction,
        "inside": one.inner,
    }
