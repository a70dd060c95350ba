"""The tables of `xg cost`: what each says of a block, a collective, a policy, a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xg.cli.render.amounts import Cell, Evaluated, Seconds, evaluated
from xg.cli.render.table import Column, Table
from xg.cost.communication import SHORT, Sent, Way, total, total_bytes, total_formula
from xg.cost.cost import BlockCost, CostRow
from xg.cost.memory import Policy
from xg.cost.report import CostReport, Estimate
from xg.ir.dim import Dim

Row = TypeVar("Row")
Numbers = Mapping[str, int]
AMOUNTS = {
    "parameters": "parameters",
    "forward FLOPs": "forward_flops",
    "backward FLOPs": "backward_flops",
    "saved bytes": "saved_bytes",
}


def operators(block: BlockCost) -> Table[CostRow]:
    """The rows of a block as formulas; the text of a call's are in the callee's table."""

    def amount(place: int, head: str, key: str) -> Column[CostRow]:
        def dim(row: CostRow) -> Dim:
            return row.amount.dims()[place]

        def text(row: CostRow) -> str:
            if not row.callee:
                return str(dim(row))
            return "" if dim(row).constant == 0 else row.name

        return Column(head, key, dim, text)

    amounts = (amount(place, *names) for place, names in enumerate(AMOUNTS.items()))
    return Table((*_PLACE, *amounts), block.rows)


def in_numbers(block: BlockCost, numbers: Numbers) -> Table[CostRow]:
    """The same rows as numbers, and their sum."""

    def amount(place: int, head: str) -> Column[CostRow]:
        return Column(
            head, None, lambda row: Evaluated(row.amount.dims()[place], numbers), right=True
        )

    amounts = (amount(place, head) for place, head in enumerate(AMOUNTS))
    return Table((*_PLACE, *amounts), (*block.rows, CostRow("total", None, block.total)))


_PLACE: tuple[Column[CostRow], ...] = (
    Column("line", "line", lambda row: row.line, right=True),
    Column("operator", "operator", lambda row: row.name),
)


def collectives(report: CostReport) -> Table[Sent]:
    """Every collective: payload is that of one call, naive and ring are elements of all calls."""
    numbers = report.numbers
    return Table(
        (
            Column("line", "line", lambda part: part.line, right=True),
            Column("block", "block", lambda part: part.key, lambda part: part.block),
            Column("of", "of", lambda part: part.of or None),
            Column("pass", "pass", lambda part: part.direction),
            Column("collective", "collective", lambda part: SHORT[part.kind]),
            Column("over", "over", lambda part: part.over),
            _formula("calls", numbers, lambda part: part.calls),
            _formula("payload", numbers, lambda part: part.each or part.payload),
            Column("naive", None, lambda part: part.formula("naive")),
            Column("ring", None, lambda part: part.formula("ring")),
            *sending(numbers, _alone),
        ),
        report.sent,
    )


def _alone(part: Sent) -> Sequence[Sent]:
    return [part]


def _again(policy: Policy) -> Sequence[Sent]:
    return policy.sent


def _formula(name: str, numbers: Numbers, dim: Callable[[Sent], Dim]) -> Column[Sent]:
    return Column(
        name, name, lambda part: Evaluated(dim(part), numbers), lambda part: str(dim(part))
    )


def sending(
    numbers: Numbers, parts: Callable[[Row], Sequence[Sent]]
) -> tuple[Column[Row], Column[Row], Column[Row]]:
    """The traffic of a row as data: elements around a ring and naive, bytes around a ring."""

    def elements(row: Row, way: Way) -> Cell:
        number = evaluated(total(parts(row), way), numbers)
        return {"formula": total_formula(parts(row), way), "number": number}

    def size(row: Row) -> Cell:
        return Evaluated(total_bytes(parts(row)), numbers)

    return (
        Column(None, "communication", lambda row: elements(row, "ring")),
        Column(None, "communication_naive", lambda row: elements(row, "naive")),
        Column(None, "communication_bytes", size),
    )


def policies(report: CostReport) -> Table[Policy]:
    """The savings and costs of recompute policies."""
    numbers, flops = report.numbers, report.total.forward + report.total.backward

    def amount(head: str, key: str | None, dim: Callable[[Policy], Dim]) -> Column[Policy]:
        return Column(head, key, lambda policy: Evaluated(dim(policy), numbers), right=True)

    return Table(
        (
            Column("policy", "policy", lambda policy: policy.name),
            amount("saved bytes", "saved_bytes", lambda policy: policy.saved),
            amount("at once", "at_once_bytes", lambda policy: policy.at_once),
            amount("FLOPs in all", None, lambda policy: flops + policy.again),
            amount("FLOPs again", "flops_again", lambda policy: policy.again),
            amount("sent again", None, lambda policy: total(policy.sent, "ring")),
            *sending(numbers, _again),
        ),
        report.policies,
    )


def estimates(report: CostReport) -> Table[Estimate]:
    """How long machines take at least."""
    return Table(
        (
            Column("machine", "machine", lambda each: each.machine.name),
            Column(None, "title", lambda each: each.machine.title),
            Column(None, "source", lambda each: each.machine.source),
            _time("computing", "computing_seconds", lambda each: each.compute),
            _time("sending", "sending_seconds", lambda each: each.communicate),
            _time("together", None, lambda each: each.total),
            Column("", None, lambda each: each.machine.title),
        ),
        report.estimates,
    )


def _time(
    head: str, key: str | None, seconds: Callable[[Estimate], float | None]
) -> Column[Estimate]:
    return Column(head, key, lambda each: Seconds(seconds(each)), right=True)


def memory(report: CostReport) -> Sequence[tuple[str, str, Dim]]:
    """The memory of a rank in training: names for people and for data, and bytes."""
    held = report.memory
    return (
        ("parameters", "parameters", held.parameters),
        ("gradients", "gradients", held.gradients),
        ("moments of Adam or AdamW", "optimizer", held.optimizer),
        ("saved activations", "saved", held.saved),
        ("total", "total", held.total),
    )
