"""The proof of gradients accepts right gradients and refuses wrong ones."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from xg_runtime import gradcheck, probe
from xg_runtime import gradcheck as gradtable
from xg_runtime.errors import InputError, RunError
from xg_runtime.gradcheck import Report, Row, check, check_module
from xg_runtime.module import Array, Arrays, Module, Saved
from xg_runtime.run import spread_params

Spoil = Callable[[Arrays], None]


@dataclass(frozen=True)
class Sabotaged:
    """The module with its gradients changed."""

    module: Module
    spoil: Spoil

    def init(self, seed: int = 0, dtype: object = np.float64) -> Arrays:
        return self.module.init(seed, np.float64)

    def forward(
        self, params: Arrays, inputs: Arrays, *, seed: int | None = None
    ) -> tuple[Arrays, Saved]:
        return self.module.forward(params, inputs, seed=seed)

    def backward(self, params: Arrays, saved: Saved, d_outputs: Arrays) -> Arrays:
        gradients = self.module.backward(params, saved, d_outputs)
        self.spoil(gradients)
        return gradients


def params_of(module: Module) -> Arrays:
    return spread_params(module.init(1, np.float64), 1)


def row(report: Report, name: str) -> Row:
    (found,) = [row for row in report.rows if row.name == name]
    return found


@pytest.mark.parametrize("dropout", [None, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_right_backward_passes(
    small: Module, small_inputs: Arrays, dropout: int | None, seed: int
) -> None:
    report = check_module(small, params_of(small), small_inputs, dropout=dropout, seed=seed)
    assert report.passed, gradtable.table(report)
    assert [row.name for row in report.rows] == ["E", "W", "b", "W_out", "b_out"]
    assert row(report, "E").coordinates == 23 * 5
    assert max(row.error for row in report.rows) < 1e-8


def test_a_large_program_is_sampled(bigram: Module) -> None:
    draw = np.random.default_rng(0)
    inputs = {name: draw.integers(0, 256, (3, 11)) for name in ("ids", "t")}
    report = check_module(bigram, params_of(bigram), inputs)
    assert report.passed, gradtable.table(report)
    assert {row.name: (row.coordinates, row.directions) for row in report.rows} == {
        "E": (64, 8),
        "W": (64, 8),
        "b": (16, 0),
        "W_out": (64, 8),
        "b_out": (64, 8),
    }


def scale(name: str, factor: float) -> Spoil:
    def spoil(gradients: Arrays) -> None:
        gradients[name] = gradients[name] * factor

    return spoil


def one_element(name: str) -> Spoil:
    def spoil(gradients: Arrays) -> None:
        largest = np.abs(gradients[name]).argmax()
        gradients[name].reshape(-1)[largest] *= 1.0001

    return spoil


def swap_axes(name: str) -> Spoil:
    def spoil(gradients: Arrays) -> None:
        gradients[name] = gradients[name].T.copy()

    return spoil


def put(name: str, value: Array) -> Spoil:
    def spoil(gradients: Arrays) -> None:
        gradients[name] = value

    return spoil


SABOTAGE = [
    ("W", scale("W", 1 + 1e-5), r"at \["),
    ("W", scale("W", 1 - 1e-5), r"at \["),
    ("b", scale("b", -1), r"at \["),
    ("E", one_element("E"), r"at \["),
    ("W", swap_axes("W"), r"at \["),
    ("W_out", scale("W_out", 0), r"at \["),
    ("b", put("b", np.zeros((5, 1))), r"in shape \[5, 1\]"),
    ("b", put("b", np.full(5, np.nan)), "not finite"),
]


@pytest.mark.parametrize(("name", "spoil", "reason"), SABOTAGE)
def test_a_wrong_gradient_fails_and_only_it(
    small: Module, small_inputs: Arrays, name: str, spoil: Spoil, reason: str
) -> None:
    report = check_module(Sabotaged(small, spoil), params_of(small), small_inputs)
    assert [row.name for row in report.rows if row.verdict == "failed"] == [name]
    assert row(report, name).reason
    assert np.isnan(row(report, name).error) or row(report, name).error > 1e-6
    with pytest.raises(AssertionError):
        assert report.passed
    assert re.search(reason, row(report, name).reason)


@pytest.mark.parametrize("name", ["E", "W", "W_out", "b_out"])
def test_a_thousandth_of_a_percent_fails_in_a_sampled_tensor(bigram: Module, name: str) -> None:
    draw = np.random.default_rng(0)
    inputs = {key: draw.integers(0, 256, (3, 11)) for key in ("ids", "t")}
    wrong = Sabotaged(bigram, scale(name, 1 + 1e-5))
    report = check_module(wrong, params_of(bigram), inputs)
    assert [row.name for row in report.rows if row.verdict == "failed"] == [name]


@pytest.mark.parametrize("name", ["E", "W", "W_out"])
def test_few_directions_find_one_wrong_element(
    small: Module, small_inputs: Arrays, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as `tests/figures/test_gallery.py` takes, and no coordinate but the first drawn."""
    monkeypatch.setattr(gradcheck, "EVERY_ELEMENT_UP_TO", 0)
    monkeypatch.setattr(gradcheck, "COORDINATES", 1)
    monkeypatch.setattr(gradcheck, "DIRECTIONS", 4)
    for seed in range(5):
        wrong = Sabotaged(small, one_element(name))
        report = check_module(wrong, params_of(small), small_inputs, seed=seed)
        assert [row.name for row in report.rows if row.verdict == "failed"] == [name]
        assert row(report, name).reason.startswith("along direction")


def test_a_gradient_that_is_absent_or_of_nothing_fails(small: Module, small_inputs: Arrays) -> None:
    def spoil(gradients: Arrays) -> None:
        gradients["strange"] = gradients.pop("b")

    report = check_module(Sabotaged(small, spoil), params_of(small), small_inputs)
    assert row(report, "b").reason == "backward does not return it"
    assert row(report, "strange").reason == "there is nothing of this name to derive"
    assert not report.passed


def softmax_scores(values: Arrays) -> Arrays:
    """Σ over softmax((q + b_q)·(k + b_k)): b_k moves every score of a row equally."""
    scores = (values["q"] + values["b_q"]) @ (values["k"] + values["b_k"]).T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return {"P": weights / weights.sum(-1, keepdims=True)}


def softmax_gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
    P = softmax_scores(values)["P"]
    dP = d_outputs["P"]
    dS = (dP - (dP * P).sum(-1, keepdims=True)) * P
    q, k = values["q"] + values["b_q"], values["k"] + values["b_k"]
    dq, dk = dS @ k, dS.T @ q
    return {"q": dq, "k": dk, "b_q": dq.sum(0), "b_k": dk.sum(0)}


def attention() -> Arrays:
    draw = np.random.default_rng(0)
    shapes = {"q": (5, 3), "k": (7, 3), "b_q": (3,), "b_k": (3,)}
    return {name: draw.standard_normal(shape) for name, shape in shapes.items()}


WHY = "softmax does not see a shift of a whole row"


def test_a_structural_zero_is_listed_with_its_reason() -> None:
    report = check(softmax_scores, softmax_gradient, attention(), zeros={"b_k": WHY})
    assert report.passed, gradtable.table(report)
    assert (row(report, "b_k").verdict, row(report, "b_k").reason) == ("zero", WHY)


def test_a_zero_without_a_reason_fails() -> None:
    report = check(softmax_scores, softmax_gradient, attention())
    assert row(report, "b_k").verdict == "failed"
    assert row(report, "b_k").reason == "zero or nearly so, without a reason"


def test_a_reason_for_what_is_not_zero_fails() -> None:
    report = check(softmax_scores, softmax_gradient, attention(), zeros={"b_k": WHY, "b_q": WHY})
    assert row(report, "b_q").verdict == "failed"
    assert "declared to be zero" in row(report, "b_q").reason


def test_a_zero_that_backward_does_not_give_fails() -> None:
    def wrong(values: Arrays, d_outputs: Arrays) -> Arrays:
        return softmax_gradient(values, d_outputs) | {"b_k": np.full(3, 1e-3)}

    assert not check(softmax_scores, wrong, attention(), zeros={"b_k": WHY}).passed


def test_all_gradients_may_be_zero_if_declared() -> None:
    def nothing(values: Arrays) -> Arrays:
        return {"Y": np.sin(values["X"]) ** 2 + np.cos(values["X"]) ** 2}

    def zero(values: Arrays, d_outputs: Arrays) -> Arrays:
        return {"X": np.zeros_like(values["X"])}

    values = {"X": np.arange(5.0)}
    assert check(nothing, zero, values, zeros={"X": "sin² + cos² = 1"}).passed
    assert not check(nothing, zero, values).passed


def test_rounding_that_agrees_with_differences_is_a_zero_without_a_reason() -> None:
    """All gradients of ``W Σ(x - mean x)`` vanish: the check must not measure W by itself."""

    def sums(values: Arrays) -> Array:
        X = values["X"]
        return (X - X.mean(-1, keepdims=True)).sum(-1)

    def gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
        return {"X": np.zeros_like(values["X"]), "W": d_outputs["y"] * sums(values)}

    def found(**zeros: str) -> Row:
        report = check(lambda v: {"y": v["W"] * sums(v)}, gradient, values, zeros=zeros)
        return row(report, "W")

    values = {"X": np.random.default_rng(0).standard_normal((4, 7)), "W": np.arange(1.0, 5.0)}
    assert 0 < found().error < 1e-6
    assert found().reason == gradcheck.UNEXPLAINED
    assert found(W="the sum of a centered row is zero").verdict == "zero"


def test_a_slope_may_be_as_small_as_rounding() -> None:
    """A slope of 1e-14 that is no rounding error is compared like any other."""

    def small(values: Arrays) -> Arrays:
        return {"y": 1e-14 * np.sin(values["W"])}

    def slope(values: Arrays, d_outputs: Arrays) -> Arrays:
        return {"W": 1e-14 * np.cos(values["W"]) * d_outputs["y"]}

    report = check(small, slope, {"W": np.arange(1.0, 5.0)})
    assert row(report, "W").verdict == "ok", gradtable.table(report)


def relu(values: Arrays) -> Arrays:
    return {"Y": np.maximum(values["X"], 0) ** 1}


def relu_gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
    return {"X": d_outputs["Y"] * (values["X"] > 0)}


@pytest.mark.parametrize("distance", [0.0, 1e-12, 1e-9, 1e-6, 1e-5, 1e-3])
def test_kinks_are_moved_away_from(distance: float) -> None:
    values = {"X": np.array([[1.0, distance, -2.0], [distance, -distance, 0.5]])}
    report = check(relu, relu_gradient, values)
    assert report.passed, gradtable.table(report)


def test_a_wrong_gradient_does_not_hide_behind_a_kink() -> None:
    def wrong(values: Arrays, d_outputs: Arrays) -> Arrays:
        return {"X": d_outputs["Y"] * np.where(values["X"] > 0, 1.00001, 0)}

    values = {"X": np.array([[1.0, 0.0, -2.0], [0.0, 0.0, 0.5]])}
    assert not check(relu, wrong, values).passed
    half = {"X": np.zeros(4)}
    assert not check(relu, lambda values, d: {"X": d["Y"] * 0.5}, half).passed


def test_a_function_that_is_nowhere_smooth_is_not_passed_over() -> None:
    def rough(values: Arrays) -> Arrays:
        return {"Y": values["X"] + 1e-3 * np.abs(np.sin(1e9 * values["X"]))}

    report = check(rough, lambda values, d: {"X": d["Y"].copy()}, {"X": np.array([0.3, 0.7])})
    assert not report.passed
    assert report.rows[0].reason


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_values_of_any_size(size: float) -> None:
    def function(values: Arrays) -> Arrays:
        return {"Y": np.tanh(values["X"] / size) * values["W"]}

    def gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
        tanh = np.tanh(values["X"] / size)
        return {
            "X": d_outputs["Y"] * values["W"] * (1 - tanh**2) / size,
            "W": (d_outputs["Y"] * tanh).sum(0),
        }

    draw = np.random.default_rng(0)
    values = {"X": size * draw.standard_normal((4, 3)), "W": draw.standard_normal(3)}
    assert check(function, gradient, values).passed


def test_masked_outputs_carry_no_gradient() -> None:
    hidden = np.array([[False, True], [False, False]])

    def masked(values: Arrays) -> Arrays:
        return {"Z": np.where(hidden, -np.inf, values["X"] ** 2)}

    def gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
        return {"X": np.where(hidden, 0, d_outputs["Z"] * 2 * values["X"])}

    assert check(masked, gradient, {"X": np.ones((2, 2))}).passed


def test_an_output_may_be_a_view_of_its_input() -> None:
    def same(values: Arrays) -> Arrays:
        return {"Y": values["X"].reshape(6)}

    def gradient(values: Arrays, d_outputs: Arrays) -> Arrays:
        return {"X": d_outputs["Y"].reshape(2, 3)}

    assert check(same, gradient, {"X": np.ones((2, 3))}).passed


def test_the_values_given_are_left_as_they_were() -> None:
    values = attention()
    before = {name: value.copy() for name, value in values.items()}
    check(softmax_scores, softmax_gradient, values)
    for name, value in values.items():
        assert np.array_equal(value, before[name])


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(InputError, match="X is float32, gradients are checked in float64"):
        check(relu, relu_gradient, {"X": np.ones(2, np.float32)})
    with pytest.raises(RunError, match="Y is not a number"):
        check(relu, relu_gradient, {"X": np.array([np.nan])})


def test_an_empty_report_has_not_passed() -> None:
    assert not Report((), 0).passed


def test_agreement_is_as_the_contract_says() -> None:
    a, b = np.array([3.0, 4.0]), np.array([3.0, 4.5])
    assert probe.error(a, b, 0.0) == pytest.approx(0.5 / np.hypot(3, 4.5))
    assert probe.error(a, b, 100.0) == pytest.approx(0.5 / (np.hypot(3, 4.5) + 1))
    assert probe.error(a, a, 0.0) == 0
    assert not probe.error(a, np.array([np.nan, 0]), 1.0) <= 1


def test_a_report_is_json() -> None:
    rows = (Row("W", (2,), 2, 0, float("inf"), 1e-6, "failed", "not finite"),)
    found = json.loads(json.dumps(gradtable.as_json(Report(rows, 7)), allow_nan=False))
    assert found["passed"] is False
    assert found["gradients"][0]["error"] is None
    assert found["gradients"][0]["shape"] == [2]


def test_the_table_says_everything() -> None:
    rows = (
        Row("layers.0.W", (64, 64), 64, 8, 2.13e-10, 1e-6, "ok"),
        Row("b_K", (3,), 3, 0, 0.0, 1e-6, "zero", WHY),
        Row("X", (), 1, 0, 1e-3, 1e-6, "failed", "at []: 2, not 1"),
    )
    assert gradtable.table(Report(rows, 7)) == (
        "gradient of  shape     compared           error    tolerance  verdict\n"
        "layers.0.W   [64, 64]  64 + 8 directions  2.1e-10  1e-06      ok\n"
        f"b_K          [3]       3                  0.0e+00  1e-06      zero: {WHY}\n"
        "X            []        1                  1.0e-03  1e-06      failed: at []: 2, not 1\n"
        "2 of 3 gradients agree, seed 7\n"
    )
