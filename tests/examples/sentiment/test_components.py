"""Words to vectors: neighbors counted, standardised, shortened; against LAPACK."""

import numpy as np
import pytest
from examples.sentiment.components import covariance, principal, project, standardised
from examples.sentiment.cooccurrence import cooccurrence
from examples.sentiment.words import words

from xg_runtime.errors import InputError
from xg_runtime.module import Array


@pytest.fixture(scope="module")
def rows() -> Array:
    """Rows of neighbors as texts give them: 90 words, a few of them nearly everywhere."""
    draw = np.random.default_rng(0)
    often = 1 / np.arange(1, 91)
    texts = draw.choice(90, (300, 11), p=often / often.sum())
    return standardised(cooccurrence(texts.tolist(), 90))


def test_words_are_small_letters_and_digits() -> None:
    assert words("The cat; THE dog-house, 2 x_y") == [
        "the",
        "cat",
        "the",
        "dog",
        "house",
        "2",
        "x",
        "y",
    ]
    assert words("don’t DON'T 'tis 'quoted'") == ["don't", "don't", "tis", "quoted"]
    assert words("Größe cafe\u0301 ЖИЗНЬ") == ["grösse", "café", "жизнь"]
    assert words("… — !") == []


def test_the_matrix_of_the_seed_but_for_one_pair() -> None:
    """The seed's table has "on" next to "mat"; in its sentence "the" is between them."""
    row = words("the cat sat on the mat")
    places = {word: place for place, word in enumerate(dict.fromkeys(row))}
    assert list(places) == ["the", "cat", "sat", "on", "mat"]
    found = cooccurrence([[places[word] for word in row]], 5)
    printed = np.array(
        [[0, 1, 0, 1, 1], [1, 0, 1, 0, 0], [0, 1, 0, 1, 0], [1, 0, 1, 0, 1], [1, 0, 0, 1, 0]]
    )
    assert np.argwhere(found != printed).tolist() == [[3, 4], [4, 3]]
    assert found[3, 4] == found[4, 3] == 0


def test_neighbors_are_counted_within_one_text_and_among_known_words() -> None:
    assert cooccurrence([[0, 1], [2]], 3).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert not cooccurrence([[0, -1, 1]], 2).any()
    assert cooccurrence([[0, 0, 0]], 1).tolist() == [[4]]
    assert cooccurrence([], 2).shape == (2, 2)


def test_rows_are_standardised() -> None:
    found = standardised(np.array([[1.0, 2.0, 3.0, 6.0], [5.0, 5.0, 5.0, 5.0]]))
    assert found.mean(1) == pytest.approx([0, 0], abs=1e-15)
    assert found.std(1) == pytest.approx([1, 0])
    assert covariance(found)[0, 0] == pytest.approx(1)


def test_power_iteration_agrees_with_lapack(rows: Array) -> None:
    matrix = covariance(rows)
    found = principal(matrix, 50)
    variances, directions = np.linalg.eigh(matrix)
    variances, directions = variances[::-1][:50], directions[:, ::-1][:, :50]
    assert np.abs(found.variances - variances).max() < 1e-10 * variances[0]
    signs = np.sign((directions * found.directions).sum(0))
    assert np.abs(found.directions - directions * signs).max() < 1e-4
    assert np.abs(found.directions.T @ found.directions - np.eye(50)).max() < 1e-5


def test_deflation_is_what_finds_the_second(rows: Array) -> None:
    """Negative control: without A' = A - λ v vᵀ every direction is the first one."""
    matrix = covariance(rows)
    first = principal(matrix, 1, seed=7)
    second = principal(matrix, 2).directions[:, 1]
    assert abs(float(first.directions[:, 0] @ second)) < 1e-6
    left = matrix - first.variances[0] * np.outer(first.directions, first.directions)
    assert principal(left, 1).directions[:, 0] == pytest.approx(second, abs=1e-5)


def test_a_direction_has_a_sign(rows: Array) -> None:
    matrix = covariance(rows)
    one, other = (principal(matrix, 5, seed=seed).directions for seed in (0, 1))
    assert one == pytest.approx(other, abs=1e-5)
    assert np.array_equal(principal(matrix, 5).directions, one)
    assert (one[np.abs(one).argmax(0), np.arange(5)] > 0).all()


def test_vectors_carry_the_variances_and_nothing_in_common(rows: Array) -> None:
    found = principal(covariance(rows), 8)
    vectors = project(rows, found)
    assert vectors.mean(0) == pytest.approx(np.zeros(8), abs=1e-12)
    assert vectors.T @ vectors / len(vectors) == pytest.approx(np.diag(found.variances), abs=1e-5)


def test_the_product_that_the_seed_writes_loses_the_variance(rows: Array) -> None:
    """Y = X V with standardised rows: the directions are of rows, and X V combines columns."""
    found = principal(covariance(rows), 8)
    kept, left = (
        np.mean(vectors**2) for vectors in (project(rows, found), rows @ found.directions)
    )
    assert kept == pytest.approx(found.variances.mean())
    assert left < 0.05 * kept


def test_more_components_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="there are 1 principal components, not 2"):
        principal(np.ones((3, 3)), 2)
    with pytest.raises(InputError, match="there are 3 principal components, not 4"):
        principal(np.diag([3.0, 2.0, 1.0]), 4)
    with pytest.raises(InputError, match="there are 0"):
        principal(np.zeros((3, 3)), 1)
