import math
from collections.abc import Callable

import numpy as np
import pytest

from xg_runtime import probe as finite
from xg_runtime.probe import Line, Slope, power_of_two


def line(function: Callable[[float], float], at: float) -> Line:
    return lambda offset: np.array([function(at + offset), 1e3])


def careful(line: Line, scale: float) -> Slope:
    return finite.careful(line, line(0.0), scale)


SMOOTH: list[tuple[str, Callable[[float], float], float, float]] = [
    ("exp", math.exp, 0.3, math.exp(0.3)),
    ("sin", math.sin, 1.0, math.cos(1.0)),
    ("cube", lambda x: x**3, -2.0, 12.0),
    ("fast", lambda x: math.sin(40 * x), 0.2, 40 * math.cos(8)),
    ("flat", lambda x: x**4, 0.0, 0.0),
    ("line", lambda x: 3 * x, 5.0, 3.0),
]


@pytest.mark.parametrize(("function", "at", "slope"), [case[1:] for case in SMOOTH])
def test_smooth_slopes_are_found(
    function: Callable[[float], float], at: float, slope: float
) -> None:
    scale = max(abs(slope), 1.0)
    along = line(function, at)
    assert abs(finite.quick(along, along(0.0), 1.0, finite.QUICK).value - slope) < 1e-6 * scale
    found = careful(along, 1.0)
    assert abs(found.value - slope) < 2e-9 * scale
    assert abs(found.value - slope) <= found.error < 1e-7 * scale


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_the_step_follows_the_scale(scale: float) -> None:
    found = careful(line(lambda x: math.exp(x / scale), 0.3 * scale), scale)
    assert found.value * scale == pytest.approx(math.exp(0.3), rel=1e-8)


def test_a_kink_in_the_middle_is_not_believed() -> None:
    found = careful(line(abs, 0.0), 1.0)
    assert found.value == 0  # what central differences say at every step
    assert found.error > 0.5


@pytest.mark.parametrize("distance", [1e-2, 1e-3, 1e-4])
def test_a_kink_nearby_is_stepped_under(distance: float) -> None:
    found = careful(line(lambda x: max(x, 0.0) + math.sin(x), distance), 1.0)
    assert found.value == pytest.approx(1 + math.cos(distance), abs=1e-7)


@pytest.mark.parametrize("distance", [1e-7, 1e-9])
def test_a_kink_too_near_is_not_believed(distance: float) -> None:
    assert careful(line(lambda x: max(x, 0.0), distance), 1.0).error > 1e-3


def test_values_that_are_not_numbers_are_not_believed() -> None:
    found = careful(lambda offset: np.array([math.nan]), 1.0)
    assert not found.error < 1


def test_steps_are_powers_of_two() -> None:
    assert [power_of_two(x) for x in (0.0, 1.0, 3.1, 0.09)] == [1.0, 1.0, 4.0, 0.125]
