"""Imported models give what torch gives: outputs, and the gradient of every parameter."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from importing.agreement import compare, imported
from importing.sources import CASES

from xg.diagnostics.diagnostic import Source
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project
from xg.syntax.format import format

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", CASES)
def test_an_imported_model_is_the_model(name: str, golden: Callable[[Path, str], None]) -> None:
    """One test, because the export takes most of the time."""
    model, made = imported(CASES[name])
    golden(GOLDEN / f"{name}.xg", made.text)
    assert format(Source("imported.xg", made.text)) == made.text
    assert check_choices(parse_project(made.text.encode())) == ()
    for sizes in ((4, 7), (2, 11)):
        torch.manual_seed(sizes[0])
        outputs, gradients = compare(model, made, CASES[name].inputs(*sizes), dict(made.params))
        assert outputs < 1e-10
        assert gradients < 1e-8


def test_no_golden_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_wrong_weights_are_noticed() -> None:
    """A transpose left out, and two parts of the fused weight exchanged."""
    model, made = imported(CASES["old_gpt"])
    inputs = CASES["old_gpt"].inputs(4, 7)
    assert compare(model, made, inputs, dict(made.params))[0] < 1e-10
    turned = np.ascontiguousarray(made.params["W_O"].T)
    exchanged = {"W_Q": made.params["W_V"], "W_V": made.params["W_Q"]}
    for wrong in ({"W_O": turned}, exchanged):
        assert compare(model, made, inputs, {**made.params, **wrong})[0] > 1e-3


def test_every_number_of_the_model_is_there_once() -> None:
    model, made = imported(CASES["old_gpt"])
    count = sum(parameter.numel() for parameter in model.parameters())
    assert sum(value.size for value in made.params.values()) == count
