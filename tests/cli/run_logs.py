"""The logs of two runs, compared."""

from __future__ import annotations

import json
from pathlib import Path


def records(folder: Path) -> list[dict[str, float]]:
    """The lines of the log of a run."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def distance(one: Path, other: Path) -> float:
    """The largest relative distance of losses, norms and rates of two runs."""
    first, second = records(one), records(other)
    assert [list(record) for record in first] == [list(record) for record in second]
    return max(
        abs(a[key] - b[key]) / abs(a[key]) for a, b in zip(first, second, strict=True) for key in a
        if a[key]
    )  # fmt: skip
