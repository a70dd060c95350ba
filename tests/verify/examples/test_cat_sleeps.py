"""Seed 004: every number that it prints, checked against the true one.

The true numbers are computed here in plain NumPy, by code that does not use the compiler.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from verify.examples.sources import CAT_SLEEPS, examples

from xg.frontend.examples import BoundExample, bind, documents
from xg.frontend.project import parse_project, read_project
from xg.verify.claim_check import Array, Judged, Recomputation, checked, judge

AS_WRITTEN = Path(__file__).parents[2] / "programs" / "06_cat_sleeps.xg"
HOLDING = {"Q": 1, "K": 0, "V": 1, "A": 0, "AS": 0, "O": 9, "H": 0, "z": 0, "y": 0} | {
    "loss": 1, "dW_2": 0, "dW_1": 0
}  # fmt: skip


def by_hand() -> dict[str, Array]:
    """Forward and backward pass of the seed, with the mean as reduction of the loss."""
    given = Recomputation(next(documents(read_project(CAT_SLEEPS))))
    x, t = given.inputs["X"], given.inputs["t"]
    p = given.params
    q, k, v = x @ p["W_Q"], x @ p["W_K"], x @ p["W_V"]
    a = q @ k.T / np.sqrt(3)
    weights = np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)
    o = weights @ v
    h = np.maximum(o @ p["W_1"], 0)
    z = h @ p["W_2"]
    y = 1 / (1 + np.exp(-z))
    surprise: Array = -(t * np.log(y) + (1 - t) * np.log(1 - y))
    dz = (y - t) / 3
    dh = (dz @ p["W_2"].T) * (h > 0)
    made = {"Q": q, "K": k, "V": v, "A": a, "AS": weights, "O": o, "H": h, "z": z, "y": y}
    return {**made, "loss": surprise.mean(), "dW_2": h.T @ dz, "dW_1": o.T @ dh}


@pytest.fixture(scope="module")
def both() -> list[tuple[BoundExample, list[Judged]]]:
    return [(each, list(judge(each))) for each in documents(read_project(CAT_SLEEPS))]


def test_the_true_numbers_are_those_computed_by_hand(
    both: list[tuple[BoundExample, list[Judged]]],
) -> None:
    expected = by_hand()
    for _, claims in both:
        assert [each.claim.target.name for each in claims] == list(expected)
        for each in claims:
            np.testing.assert_allclose(
                each.from_givens.value, expected[each.claim.target.name], rtol=1e-13
            )


def test_every_printed_number_of_the_seed_is_a_claim() -> None:
    written, kept = examples(AS_WRITTEN)[0], examples(CAT_SLEEPS)[0]
    assert [(g.target.name, g.value) for g in kept.givens] == [
        (g.target.name, g.value) for g in written.givens
    ]
    assert [(e.target.name, e.value) for e in kept.expects] == [
        (e.target.name, e.value) for e in written.expects
    ]


def test_the_false_numbers_are_found_without_being_told_which() -> None:
    text = re.sub(r' wrong "[^"]*"', "", CAT_SLEEPS.read_text(encoding="utf-8"))
    assert 'wrong "' not in text
    project = parse_project(text.encode())
    printed, corrected = (list(judge(bind(project, e))) for e in project.main.examples)
    found = {each.claim.target.name: int(each.from_givens.holds.sum()) for each in printed}
    assert found == HOLDING
    assert {each.claim.target.name for each in printed if each.standing == "false"} == {
        each.target.name for each in examples(CAT_SLEEPS)[0].expects if each.wrong is not None
    }
    assert all(each.standing == "true" for each in corrected)


def test_how_many_numbers_hold_and_which_steps_follow(
    both: list[tuple[BoundExample, list[Judged]]],
) -> None:
    (_, printed), (_, corrected) = both
    assert sum(each.printed.size for each in printed) == 82
    assert sum(int(each.from_givens.holds.sum()) for each in printed) == 12
    following = {e.claim.target.name for e in printed if e.from_printed and e.from_printed.passed}
    assert following == {"y"}
    assert all(each.from_printed and each.from_printed.passed for each in corrected)


@pytest.mark.parametrize(("reduction", "loss"), [("mean", 0.715261), ("sum", 2.145783)])
def test_the_loss_is_a_mean(reduction: str, loss: float) -> None:
    text = CAT_SLEEPS.read_text(encoding="utf-8").replace("BCE(mean)", f"BCE({reduction})")
    claims = judge(next(documents(parse_project(text.encode()))))
    (found,) = (each for each in claims if each.claim.target.name == "loss")
    assert float(found.from_givens.value) == pytest.approx(loss, abs=1e-6)
    assert found.from_givens.passed == (reduction == "mean")


def test_with_its_marks_it_passes_and_its_gradients_are_those_of_the_loss() -> None:
    found = list(checked(read_project(CAT_SLEEPS), None, {}, seed=0))
    assert [each.passed for each in found] == [True, True]
    for each in found:
        assert set(each.differences) == {"dW_2", "dW_1"}
        assert all(row.verdict == "ok" and row.error < 1e-8 for row in each.differences.values())
