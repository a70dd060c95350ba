"""Examples whose numbers are in a file of arrays."""

from pathlib import Path

import numpy as np
import pytest
from tests.verify.examples.sources import NET

from xg.diagnostics.diagnostic import DiagnosticError
from xg.frontend.examples import NUMBERS_AT_MOST, BoundExample, documents
from xg.frontend.project import read_project
from xg.verify.claim_check import judge
from xg_runtime.arrays import write

X, T = np.array([[0.5, -1.0], [0.25, 2.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
W = np.array([[1.0, 0.5], [-0.5, 2.0]])


def known_arrays() -> dict[str, np.ndarray]:
    """The block computed by hand, with the gradient of t."""
    h = np.tanh(X @ W)
    y = h @ W.T
    return {
        "X": X, "t": T, "W": W, "H": h, "Y": y,
        "loss": np.array(((y - T) ** 2).mean()), "dt": 2 * (T - y) / y.size,
    }  # fmt: skip


def document(folder: Path, arrays: dict[str, np.ndarray], lines: str) -> BoundExample:
    write(folder / "net.npz", arrays)
    text = f'{NET}example "from numpy" of Net {{\n{lines}}}\n'
    (folder / "net.xg").write_text(text, encoding="utf-8")
    (found,) = documents(read_project(folder / "net.xg"))
    return found


BOTH = '    given from "net.npz"\n    expect from "net.npz" "NumPy"\n'


def test_a_file_gives_arrays_and_claims_the_others(tmp_path: Path) -> None:
    claims = list(judge(document(tmp_path, known_arrays(), BOTH)))
    assert [each.claim.target.name for each in claims] == ["H", "Y", "loss", "dt"]
    assert {each.claim.place for each in claims} == {"NumPy"}
    assert all(each.passed for each in claims)


@pytest.mark.parametrize("name", ["H", "Y", "loss", "dt"])
@pytest.mark.parametrize(("off", "passed"), [(0.5e-6, True), (3e-6, False)])
def test_a_number_may_be_off_by_a_millionth_of_the_largest(
    tmp_path: Path, name: str, off: float, passed: bool
) -> None:
    arrays = known_arrays()
    arrays[name] = arrays[name].copy()
    arrays[name].flat[-1] += off * np.abs(arrays[name]).max()
    verdicts = {
        each.claim.target.name: each.from_givens for each in judge(document(tmp_path, arrays, BOTH))
    }
    assert verdicts[name].passed == passed
    assert all(verdict.passed for other, verdict in verdicts.items() if other != name)


def test_a_tolerance_of_ones_own_is_absolute(tmp_path: Path) -> None:
    arrays = {**known_arrays(), "Y": known_arrays()["Y"] + 0.01}
    lines = BOTH.replace('"net.npz" "NumPy"', '"net.npz" ± 0.02 "NumPy"')
    assert all(each.from_givens.passed for each in judge(document(tmp_path, arrays, lines)))


def test_a_parameter_in_the_text_stands_beside_the_file(tmp_path: Path) -> None:
    lines = f"    given g = [1, 1]\n{BOTH}"
    assert all(each.passed for each in judge(document(tmp_path, known_arrays(), lines)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"Z": X}, "no edge of Net is called Z"),
        ({"η": X, "eta": X}, "it holds eta twice"),
        ({"H": X[:, :1]}, "H is [B, D], which is [2, 2] here"),
        ({"H": X * np.nan}, 'H in "net.npz" has nan as number 0'),
        ({"H": X * 1j}, 'H in "net.npz" has numbers of type complex128'),
        (
            {"H": np.zeros(NUMBERS_AT_MOST + 1)},
            f'H in "net.npz" has {NUMBERS_AT_MOST + 1} numbers',
        ),
    ],
)
def test_what_a_file_may_not_have(tmp_path: Path, change: dict[str, np.ndarray], said: str) -> None:
    with pytest.raises(DiagnosticError) as refused:
        document(tmp_path, {**known_arrays(), **change}, BOTH)
    assert said in str(refused.value)


def test_what_is_only_given_has_nothing_to_claim(tmp_path: Path) -> None:
    arrays = {name: array for name, array in known_arrays().items() if name in ("X", "t", "W")}
    with pytest.raises(DiagnosticError, match="only has inputs and parameters of Net"):
        document(tmp_path, arrays, BOTH)


@pytest.mark.parametrize(
    ("name", "said"),
    [("gg", "gg is not an input or parameter of Net"), ("H", "Net computes H")],
)
def test_a_file_that_only_gives_has_nothing_else(tmp_path: Path, name: str, said: str) -> None:
    given = {each: known_arrays()[each] for each in ("X", "t", "W")}
    lines = '    given from "net.npz"\n    expect loss = 1 ± 9\n'
    with pytest.raises(DiagnosticError) as refused:
        document(tmp_path, {**given, name: known_arrays()["H"]}, lines)
    assert said in str(refused.value)


def test_an_array_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match="W is given twice"):
        document(tmp_path, known_arrays(), f"    given W = [[1, 0], [0, 1]]\n{BOTH}")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("none.npz", "there is no such file"),
        ("../net.npz", "is outside the project"),
        ("net.xg", "a file of arrays must end in"),
        ("damaged.npz", "the file is damaged"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / "damaged.npz").write_bytes(b"no arrays")
    with pytest.raises(DiagnosticError) as refused:
        document(tmp_path, known_arrays(), BOTH.replace("net.npz", file))
    assert said in str(refused.value)
