"""Seed 003's formulas against derived gradients; where they differ, finite differences judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from seeds import article

import xg
from xg.driver import compile_project
from xg.frontend.project import parse_project
from xg_runtime.module import Array, Arrays, Module

DIAGRAM = Path(__file__).parents[2] / "diagrams" / "examples" / "sentiment.xg"
TOLERANCE = 1e-6
NORM = (
    "dim N, D\nblock Norm(x_1 [N, D], x_2 [N, D]) -> Y [N, D] {\n    x_1 -> ⊕<-x_2 -> LN : Y\n}\n"
)
WEIGHTS = "dim N, M\nblock Weights(x [N, M]) -> w [N, M] {\n    x -> S : w\n}\n"


def apart(one: Array, other: Array) -> float:
    """The distance as a part of the longer one."""
    longer = max(np.linalg.norm(one), np.linalg.norm(other))
    return float(np.linalg.norm(one - other) / longer)


def differences(value: Callable[[], float], at: Array) -> Array:
    """Central differences of a number in every entry of an array that it reads."""
    found, step = np.zeros_like(at), 1e-5
    for place in np.ndindex(at.shape):
        kept = at[place]
        at[place] = kept + step
        above = value()
        at[place] = kept - step
        found[place] = (above - value()) / (2 * step)
        at[place] = kept
    return found


@cache
def module(text: str) -> Module:
    return compile_project(parse_project(text.encode())).on_arrays()


@dataclass(frozen=True)
class Head:
    """One head on random words, the gradients that xg derives, and every value between."""

    module: Module
    e: Array  # [1, N, D]
    params: Arrays
    dy: Array

    @classmethod
    def of(cls, words: int, size: int) -> Head:
        draw = np.random.default_rng(words)
        found = xg.compile(DIAGRAM, block="Head", sizes={"S": words, "D": size}).on_arrays()
        params = {n: draw.standard_normal((size, size)) / 2 for n in ("M_Q", "M_K", "M_V")}
        e, dy = draw.standard_normal((2, 1, words, size))
        return cls(found, e, params, dy)

    def gradients(self) -> Arrays:
        _, saved = self.module.forward(self.params, {"X": self.e})
        return self.module.backward(self.params, saved, {"O": self.dy})

    def output(self) -> Array:
        return self.module.forward(self.params, {"X": self.e})[0]["O"]

    def judged(self, name: str) -> Array:
        """The gradient by finite differences."""
        at = self.e if name == "X" else self.params[name]
        return differences(lambda: float((self.output() * self.dy).sum()), at)

    def errors(self) -> tuple[Array, Array, Array]:
        """The article's ∂C/∂a, ∂C/∂b and ∂C/∂v, one after the other."""
        a, b, v = (self.e[0] @ self.params[name] for name in ("M_Q", "M_K", "M_V"))
        w = module(WEIGHTS).forward({}, {"x": a @ b.T})[0]["w"]
        dw, dv = article.errors_of_product(w, v, self.dy[0])
        dx = article.errors_of_scores(w, dw)
        return article.error_of_query(dx, b), article.error_of_query(dx.T, a), dv


@pytest.fixture(scope="module")
def head() -> Head:
    """Four words of four numbers: the sizes at which all that is printed can be computed."""
    return Head.of(4, 4)


def jacobian(text: str, inputs: Arrays, of: str) -> Array:
    """Row by row what the derived backward pass says of one row of numbers."""
    size = inputs[of].shape[-1]
    (output,), saved = module(text).forward({}, inputs)
    unit = [row[None] for row in np.eye(size)]
    return np.stack([module(text).backward({}, saved, {output: row})[of][0] for row in unit])


def test_the_jacobian_of_softmax_is_right() -> None:
    x = np.random.default_rng(1).standard_normal((1, 5))
    w = module(WEIGHTS).forward({}, {"x": x})[0]["w"][0]
    assert apart(article.softmax_jacobian(w), jacobian(WEIGHTS, {"x": x}, "x")) < 1e-12


def test_the_jacobian_of_add_and_norm_is_right_and_of_both_inputs() -> None:
    """σ is the root of variance and ε, which LN adds; without ε it is right where σ² ≫ ε."""
    draw = np.random.default_rng(2)
    inputs = {name: draw.standard_normal((1, 6)) for name in ("x_1", "x_2")}
    x = (inputs["x_1"] + inputs["x_2"])[0]
    first, second = (jacobian(NORM, inputs, name) for name in inputs)
    assert np.array_equal(first, second)
    assert apart(article.norm_jacobian(x, np.sqrt(x.var() + 1e-5)), first) < 1e-12
    assert 1e-7 < apart(article.norm_jacobian(x, x.std()), first) < 1e-4


def test_mean_and_deviation_are_of_the_sum() -> None:
    """The article says: of the output of the self-attention block."""
    draw = np.random.default_rng(3)
    x_1, x_2 = draw.standard_normal((2, 1, 6))
    derived = module(NORM).forward({}, {"x_1": x_1, "x_2": x_2})[0]["Y"]
    both = x_1 + x_2
    assert apart((both - both.mean()) / both.std(), derived) < 1e-4
    assert apart((both - x_2.mean()) / x_2.std(), derived) > 0.1


def test_the_expanded_norm_lacks_its_root() -> None:
    x = np.array([[0.3, 1.7]])
    derived = module(NORM).forward({}, {"x_1": x, "x_2": np.zeros_like(x)})[0]["Y"]
    assert derived[0] == pytest.approx([-1, 1], abs=1e-4)
    assert article.expanded_norm(x[0]) == pytest.approx([-1 / 0.7, 1 / 0.7])


def test_errors_of_queries_keys_and_values_are_right() -> None:
    """Of five words of three numbers: their matrices get what the derived gradients say."""
    head = Head.of(5, 3)
    gradients = head.gradients()
    for name, error in zip(("M_Q", "M_K", "M_V"), head.errors(), strict=True):
        assert apart(article.error_of_matrix(error, head.e[0]), gradients[name]) < 1e-12
        assert apart(gradients[name], head.judged(name)) < TOLERANCE


@pytest.mark.parametrize(("name", "place"), [("M_Q", 0), ("M_K", 1)])
def test_the_printed_error_of_query_and_key_matrix_is_wrong(
    head: Head, name: str, place: int
) -> None:
    judged = head.judged(name)
    assert apart(head.gradients()[name], judged) < TOLERANCE
    error = head.errors()[place]
    assert apart(article.error_of_matrix(error, head.e[0]), judged) < TOLERANCE
    assert apart(article.printed_error_of_matrix(error, head.e[0]), judged) > 0.5


def test_the_printed_error_of_the_words_is_wrong_twice(head: Head) -> None:
    """Its indices are of other places, and it lacks the way through the values."""
    judged = head.judged("X")[0]
    assert apart(head.gradients()["X"][0], judged) < TOLERANCE
    da, db, dv = head.errors()
    q, k, m = (head.params[name] for name in ("M_Q", "M_K", "M_V"))
    assert apart(article.printed_error_of_words(da, q, db, k), judged) > 0.5
    assert apart(article.error_of_words((da, q), (db, k)), judged) > 0.5
    assert apart(article.error_of_words((da, q), (db, k), (dv, m)), judged) < TOLERANCE


def test_heads_sum_into_the_words() -> None:
    """The gradient through all heads is the sum of those through each, behind the linear layer."""
    draw = np.random.default_rng(5)
    heads = xg.compile(DIAGRAM, block="ThreeHeads", sizes={"S": 5, "D": 4}).on_arrays()
    params = {n: draw.standard_normal(a.shape) / 2 for n, a in heads.init(0, np.float64).items()}
    e, dy = draw.standard_normal((2, 1, 5, 4))
    _, saved = heads.forward(params, {"X": e})
    together = heads.backward(params, saved, {"Y": dy})["X"]
    parts = np.split(dy @ params["W"].T, 3, axis=-1)
    one = xg.compile(DIAGRAM, block="Head", sizes={"S": 5, "D": 4}).on_arrays()
    total = np.zeros_like(e)
    for number, part in enumerate(parts, 1):
        own = {n: params[f"head_{number}.{n}"] for n in ("M_Q", "M_K", "M_V")}
        total += one.backward(own, one.forward(own, {"X": e})[1], {"O": part})["X"]
    assert apart(total, together) < 1e-12


def test_query_and_key_change_places_between_forward_and_backward(head: Head) -> None:
    """Forward W_nm = (V_n M_K) · (V_m M_Q); backward x_ij = a_i · b_j, where a are queries."""
    e, (q, k, v) = head.e[0], head.params.values()
    forward = module(WEIGHTS).forward({}, {"x": (e @ k) @ (e @ q).T})[0]["w"] @ e @ v
    computed = head.output()[0]
    swapped = {**head.params, "M_Q": k, "M_K": q}
    assert apart(forward, computed) > 0.1
    assert apart(forward, head.module.forward(swapped, {"X": head.e})[0]["O"][0]) < 1e-12


def test_a_sum_up_to_the_word_itself_is_no_softmax(head: Head) -> None:
    """The article divides by Σ_{i=1}^{n}, n being the row: then weights of a row are not one."""
    scores = head.e[0] @ head.e[0].T
    exponents = np.exp(scores)
    printed = np.array([row / row[: n + 1].sum() for n, row in enumerate(exponents)])
    assert module(WEIGHTS).forward({}, {"x": scores})[0]["w"].sum(1) == pytest.approx(np.ones(4))
    assert (printed.sum(1)[:-1] > 1.01).all()


def test_the_example_of_positions_is_not_the_formula() -> None:
    text = "dim S, D\nblock P(X [S, D]) -> Y [S, D] {\n    X -> ⊕<-sinusoid(S, D) : Y\n}\n"
    found = module(text).forward({}, {"X": np.zeros((13, 4))})[0]["Y"][12]
    slow = 12 / 10000 ** (2 / 4)
    assert found == pytest.approx([np.sin(12), np.cos(12), np.sin(slow), np.cos(slow)])
    printed = article.positions(12)
    assert printed[[0, 2]] == pytest.approx(found[[0, 2]])
    assert np.abs(printed - found)[[1, 3]].min() > 1e-3
