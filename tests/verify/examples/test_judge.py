"""Verdicts: what is true, what follows, and how exact a printed number is."""

from dataclasses import replace

import numpy as np
import pytest
from verify.examples.sources import GIVEN, NET, document, judged

from xg import ops
from xg.frontend.examples import last_digit
from xg.frontend.project import parse_project
from xg.ir.prim import Expr
from xg.verify.claim_check import NUDGES_AT_MOST, CheckedDocument, Recomputation, checked

# X • W, and tanh of it, to four digits
U = "    expect U = [[1, -1.75], [-0.75, 4.125]]\n"
H = "    expect H = [[0.7616, -0.9414], [-0.6351, 0.9995]]\n"


@pytest.mark.parametrize(
    ("digits", "half"),
    [("0.340", 5e-4), ("12", 0.5), ("1.5e3", 50.0), ("2e-5", 5e-6), ("0.1E+1", 0.5)],
)
def test_half_a_unit_of_the_last_digit(digits: str, half: float) -> None:
    assert last_digit(digits) == pytest.approx(half, rel=1e-12)


def test_a_number_is_as_exact_as_its_last_digit() -> None:
    (right,) = judged(H)
    assert right.standing == "true"
    (wrong,) = judged(H.replace("0.9995", "0.9996"))
    assert wrong.standing == "false"
    assert wrong.from_givens.holds.tolist() == [[True, True], [True, False]]
    (loose,) = judged(H.replace("0.9995", "0.9996").rstrip() + " ± 1e-3\n")
    assert loose.standing == "true"


def test_a_mark_keeps_what_is_false_and_refuses_what_is_true() -> None:
    marked = ' "Step 1" wrong "a misprint"\n'
    (kept,) = judged(H.replace("0.9995", "0.9996").rstrip() + marked)
    assert (kept.standing, kept.passed) == ("false, as marked", True)
    (true,) = judged(H.rstrip() + marked)
    assert (true.standing, true.passed) == ("marked wrong, but true", False)
    assert (true.claim.place, true.claim.wrong) == ("Step 1", "a misprint")


def test_a_step_may_follow_from_a_wrong_one() -> None:
    wrong = "    expect U = [[1, -1.75], [-0.75, 0.5]]\n"
    _, step = judged(wrong + H.replace("0.9995", "0.4621"))
    assert not step.from_givens.passed
    assert step.from_printed is not None
    assert step.from_printed.passed


def test_a_true_number_may_contradict_the_one_before_it() -> None:
    _, step = judged("    expect U = [[1, -1.75], [-0.75, 0.5]]\n" + H)
    assert step.from_givens.passed
    assert step.from_printed is not None
    assert step.from_printed.holds.tolist() == [[True, True], [True, False]]


def test_the_last_printed_value_of_an_edge_counts() -> None:
    wrong = '    expect U = [[1, -1.75], [-0.75, 0.5]] wrong "a misprint"\n'
    *_, step = judged(wrong + U + H)
    assert step.from_printed is not None
    assert step.from_printed.passed


def test_the_rounding_of_the_numbers_before_is_allowed_for() -> None:
    """tanh(1.0 ± 0.05) is 0.76 ± 0.02: 0.7616 does not contradict 1.0, and 0.7816 nearly does."""
    rough = "    expect U = [[1.0, -1.8], [-0.8, 4.1]]\n"
    _, step = judged(rough + H)
    assert step.from_printed is not None
    assert not np.all(step.from_printed.error <= 0.5e-4)
    assert step.from_printed.passed
    _, step = judged(rough + H.replace("0.7616", "0.8000"))
    assert step.from_printed is not None
    assert step.from_printed.holds.tolist() == [[False, True], [True, True]]


def test_gradients_follow_from_printed_edges_too() -> None:
    """dU is dH times 1 - H²: with H = 0.5 everywhere it is three quarters of it."""
    half = '    expect H = [[0.5, 0.5], [0.5, 0.5]] wrong "made up"\n'
    down = '    expect dH = [[4, 8], [12, 16]] wrong "made up"\n'
    *_, step = judged(half + down + "    expect dU = [[3, 6], [9, 12]]\n")
    assert step.from_printed is not None
    np.testing.assert_allclose(step.from_printed.value, [[3, 6], [9, 12]])


def test_too_many_numbers_are_not_followed() -> None:
    rows = NUDGES_AT_MOST // 2 + 1
    given = (
        f"    given X = [{', '.join(['[1, 1]'] * rows)}], t = [{', '.join(['[0, 1]'] * rows)}],\n"
        "          W = [[1, 0], [0, 1]]\n"
    )
    ones = f"    expect U = [{', '.join(['[1, 1]'] * rows)}]\n"
    first, second = judged(ones + "    expect loss = 1\n", given)
    assert first.from_printed is not None
    assert second.from_printed is None


def test_a_parameter_that_is_not_given_is_as_it_starts() -> None:
    recomputation = Recomputation(document(U))
    assert recomputation.params["g"].tolist() == [1.0, 1.0]
    given = GIVEN.rstrip() + ", g = [2, 0]\n"
    assert Recomputation(document(U, given)).params["g"].tolist() == [2.0, 0.0]


def test_sizes_come_from_the_arrays_and_stand_before_defaults() -> None:
    found = document(U, block=NET.replace("dim B, D", "dim B = 7, D = 9"))
    assert found.sizes == {"B": 2, "D": 2}


def _one(claims: str, block: str = NET) -> CheckedDocument:
    text = f"{block}example of Net {{\n{GIVEN}{claims}}}\n"
    (found,) = checked(parse_project(text.encode()), None, {}, seed=0)
    return found


SOME = "    expect dW = [[0, 0], [0, 0]]\n    expect dU = [[0, 0], [0, 0]]\n"


def test_claimed_gradients_are_held_against_finite_differences() -> None:
    rows = _one(SOME + "    expect dX = [[0, 0], [0, 0]]\n").differences
    assert {name: row.verdict for name, row in rows.items()} == dict.fromkeys(
        ("dW", "dU", "dX"), "ok"
    )


def test_a_wrong_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def squared(dy: Expr, y: Expr) -> tuple[Expr]:
        return (dy * (1.0 - y),)

    wrong = replace(ops.table()["tanh"], adjoint=squared)
    monkeypatch.setitem(ops.table(), "tanh", wrong)  # pyright: ignore[reportArgumentType]
    found = _one(SOME)
    assert not found.passed
    assert {name for name, row in found.differences.items() if row.verdict == "failed"} == {
        "dW",
        "dU",
    }


TIES = """\
dim S
op Larger(a, b) = max(a, b)
op Product(a, b) = a*b
block Net(x [S]) -> loss [] {
    x -> stop                 : s
    Larger(x, s) -> sum[S]    : l
    Product(x, s) -> sum[S]   : p
    x -> ReLU -> sum[S]       : r
    l -> ⊕<-p -> ⊕<-r         : loss
}
example of Net {
    given x = [2, 0, -3]
    expect dx = [3.5, 0.5, -2.5]
}
"""


def test_claims_hold_at_ties_and_where_gradients_end() -> None:
    """One half is the share of max(x, s), x the slope of x*s, and 1 or 0 that of ReLU."""
    (found,) = checked(parse_project(TIES.encode()), None, {}, seed=0)
    assert found.passed, found.differences


def test_a_gradient_that_is_zero_with_these_numbers() -> None:
    block = NET.replace("tanh", "ReLU").replace("•<=W : U", "•<=W -> scale(0) : U")
    found = _one("    expect dW = [[0, 0], [0, 0]] ± 1e-9\n", block)
    assert found.passed
    assert found.differences["dW"].verdict == "zero"
