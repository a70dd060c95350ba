"""Seed 003's cloud of points: one component describes it, and the picture shows that."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from docs.cloud import components, picture, points
from examples.sentiment.components import project

PICTURE = Path(__file__).parents[2] / "docs" / "figures" / "components.svg"


def test_the_picture_is_that_of_the_points(golden: Callable[[Path, str], None]) -> None:
    golden(PICTURE, picture())


def test_one_component_describes_points_along_a_line() -> None:
    """Of all lines through the mean it leaves the least; the second is at a right angle to it."""
    rows = points()
    found = components(rows)
    first, second = found.directions.T
    assert first @ second == pytest.approx(0, abs=1e-6)
    angles = np.linspace(0, np.pi, 1801)
    lines = np.stack([np.cos(angles), np.sin(angles)])  # [2, 1801], every tenth of a degree
    best = lines[:, (lines.T @ rows).var(axis=1).argmax()]
    assert abs(first @ best) == pytest.approx(1, abs=1e-5)
    along = project(rows, found)[:, :1] @ first[None]
    left = ((rows.T - along) ** 2).sum() / (rows**2).sum()
    assert left < 0.1
    assert left == pytest.approx(found.variances[1] / found.variances.sum())
