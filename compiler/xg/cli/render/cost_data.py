"""`xg cost --json`: every amount as formula and number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xg.cli.render.amounts import evaluated
from xg.cost.communication import SHORT, Sent, total, total_bytes, total_formula
from xg.cost.cost import BlockCost, CostRow
from xg.cost.hardware import Estimate
from xg.cost.recompute import Policy
from xg.cost.report import CostReport
from xg.ir.dim import Dim

Data = Mapping[str, object]
COLUMNS = ("parameters", "forward_flops", "backward_flops", "saved_bytes")


def as_data(found: CostReport) -> Data:
    """One document: blocks, then what a rank sends, holds, and could compute again."""
    plan = found.placed.plan if found.placed else None
    return {
        "block": found.cost.program.main.block,
        "dtype": found.dtype,
        "plan": plan.name if plan else None,
        "mesh": dict(found.mesh),
        "sizes": dict(sorted(found.numbers.items())),
        "total": _total(found),
        "blocks": [_block(block) for block in found.blocks],
        "collectives": [_collective(part, found.numbers) for part in found.sent],
        "layers": [
            {"block": each.name, "line": each.line, **_sending(each.sent, found.numbers)}
            for each in found.rounds
        ],
        "memory_bytes": _memory(found),
        "largest_array": _largest(found),
        "recompute": [_policy(each, found.numbers) for each in found.policies],
        "estimates": [_estimate(each) for each in found.estimates],
    }


def _largest(found: CostReport) -> Data | None:
    """The largest array of a single step; null where nothing is made."""
    one = found.largest
    return one and {
        "bytes": _both(one.size, found.numbers),
        "operator": one.name,
        "block": one.block,
        "line": one.line,
        "pass": one.direction,
        "inside": one.inner,
    }


def _total(found: CostReport) -> Data:
    numbers = found.numbers
    pairs = zip(COLUMNS, found.total.dims(), strict=True)
    amounts = {name: _both(dim, numbers) for name, dim in pairs}
    return {**amounts, **_sending(found.sent, numbers)}


def _block(block: BlockCost) -> Data:
    total = {name: str(dim) for name, dim in zip(COLUMNS, block.total.dims(), strict=True)}
    return {"block": block.graph.key, "total": total, "rows": [_row(row) for row in block.rows]}


def _row(row: CostRow) -> Data:
    amounts = zip(COLUMNS, row.amount.dims(), strict=True)
    return {"operator": row.name, "line": row.line, **{name: str(dim) for name, dim in amounts}}


def _collective(part: Sent, numbers: Mapping[str, int]) -> Data:
    """One collective; payload is that of one call, naive and ring are elements of all calls."""
    return {
        "block": part.key,
        "line": part.line,
        "of": part.of or None,
        "pass": part.direction,
        "collective": SHORT[part.kind],
        "over": part.over,
        "calls": _both(part.calls, numbers),
        "payload": _both(part.payload / part.calls, numbers),
        **_sending([part], numbers),
    }


def _sending(parts: Sequence[Sent], numbers: Mapping[str, int]) -> Data:
    """Elements around a ring and naive, bytes around a ring."""
    return {
        "communication": {
            "formula": total_formula(parts, "ring"),
            "number": evaluated(total(parts, "ring"), numbers),
        },
        "communication_naive": {
            "formula": total_formula(parts, "naive"),
            "number": evaluated(total(parts, "naive"), numbers),
        },
        "communication_bytes": _both(total_bytes(parts), numbers),
    }


def _memory(found: CostReport) -> Data:
    held = found.memory
    parts = {
        "parameters": held.parameters,
        "gradients": held.gradients,
        "optimizer": held.optimizer,
        "saved": held.saved,
        "total": held.total,
    }
    return {name: _both(dim, found.numbers) for name, dim in parts.items()}


def _policy(policy: Policy, numbers: Mapping[str, int]) -> Data:
    return {
        "policy": policy.name,
        "saved_bytes": _both(policy.saved, numbers),
        "at_once_bytes": _both(policy.at_once, numbers),
        "flops_again": _both(policy.again, numbers),
        **_sending(policy.sent, numbers),
    }


def _estimate(each: Estimate) -> Data:
    return {
        "machine": each.machine.name,
        "title": each.machine.title,
        "source": each.machine.source,
        "computing_seconds": each.compute,
        "sending_seconds": each.communicate,
    }


def _both(dim: Dim, numbers: Mapping[str, int]) -> Data:
    return {"formula": str(dim), "number": evaluated(dim, numbers)}
