"""Rewriting a program by a law of mathematics does not change what it computes."""

from __future__ import annotations

import pytest
from fuzz.laws import LAWS, Rewritten, check_law, drawn
from fuzz.program import generate
from fuzz.proof import Failure
from tier import THOROUGH

PROGRAMS = 24 if THOROUGH else 8


@pytest.mark.parametrize("start", range(0, PROGRAMS, 8))
def test_laws_hold_for_random_programs(start: int) -> None:
    for seed in range(start, start + 8):
        sketch = generate(seed)
        case = drawn(sketch, seed)
        for law in LAWS:
            check_law(law, sketch, case, seed)


def test_a_law_that_does_not_hold_is_found() -> None:
    """The control: another number in the text is another program."""

    def scaled(sketch: object, _: object) -> Rewritten:
        text = str(sketch)
        head, arrow, tail = text.rpartition(" -> ")
        return Rewritten({"case.xg": f"{head} -> scale(1.001){arrow}{tail}"}, settings)

    caught = 0
    for seed in range(10):
        sketch = generate(seed)
        settings = sketch.settings
        try:
            check_law(scaled, sketch, drawn(sketch, seed), seed)
        except Failure:
            caught += 1
    assert caught >= 5
