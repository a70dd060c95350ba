"""A gradient report as a text table, and as JSON.

gradient  shape     compared          error    tolerance  verdict
dW_Q      [64, 64]  64 + 8 directions 2.1e-10  1e-06      ok
"""

import math
from dataclasses import asdict

from xg_runtime.gradcheck import UNEXPLAINED, Report, Row

_OF_ZEROS = """
note: differences are zero there, too, so they prove nothing: either no result depends on it,
or what it chooses among is equal, such as rows of a state that all start as one number,
or it shifts alike what is compared, such as a bias of two towers in front of a matrix of both"""
_HEAD = ("gradient of", "shape", "compared", "error", "tolerance", "verdict")


def table(report: Report) -> str:
    """Return the rows under a head, and a line that counts them; ends in a newline."""
    lines = [_HEAD, *map(_cells, report.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*text, _summary(report)]) + "\n"


def as_json(report: Report) -> dict[str, object]:
    """Return the report as JSON has it; an error that is not a number is null."""
    rows = [asdict(row) for row in report.rows]
    for row in rows:
        row["error"] = row["error"] if math.isfinite(row["error"]) else None
    return {"passed": report.passed, "seed": report.seed, "gradients": rows}


def _cells(row: Row) -> tuple[str, ...]:
    reason = f": {row.reason}" if row.reason else ""
    return (
        row.name,
        f"[{', '.join(map(str, row.shape))}]",
        f"{row.coordinates}" + (f" + {row.directions} directions" if row.directions else ""),
        f"{row.error:.1e}",
        f"{row.tolerance:.0e}",
        f"{row.verdict}{reason}",
    )


def _summary(report: Report) -> str:
    failed = sum(row.verdict == "failed" for row in report.rows)
    proven = f"{len(report.rows) - failed} of {len(report.rows)} gradients agree"
    zeros = any(row.reason == UNEXPLAINED for row in report.rows)
    return f"{proven}, seed {report.seed}" + (_OF_ZEROS if zeros else "")
