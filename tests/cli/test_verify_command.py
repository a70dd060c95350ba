"""`xg verify`: the table, the data, and that it can fail."""

import json
from pathlib import Path
from types import ModuleType

import pytest
from cli.conftest import DIAGRAMS, Xg

from xg import driver


def test_gradients_are_proven(xg: Xg) -> None:
    said = xg("verify", "tiny.xg")
    assert said.code == 0
    assert "5 of 5 gradients agree" in said.out
    assert "NumPy code and interpreter agree: 2 outputs and 5 gradients" in said.out
    assert said.out.endswith("1 block, 5 gradients: all proven\n")


def test_dropout_is_said_where_there_is_some(xg: Xg, folder: Path) -> None:
    assert ", float64, dropout on\n" in xg("verify", "tiny.xg").out
    text = (folder / "tiny.xg").read_text(encoding="utf-8")
    (folder / "tiny.xg").write_text(text.replace("p = 0.5", "p = 0"), encoding="utf-8")
    without = xg("verify", "tiny.xg")
    assert "5 of 5 gradients agree" in without.out
    assert "dropout" not in without.out


def test_the_same_as_data(xg: Xg) -> None:
    said = xg("verify", "tiny.xg", "--json", "--seed", 3, "--set", "B=2")
    found = json.loads(said.out)
    assert found["passed"] is True
    (proof,) = found["proofs"]
    assert proof["seed"] == 3
    assert proof["sizes"]["B"] == 2
    assert [row["name"] for row in proof["gradients"]] == ["W", "b", "V", "X", "t"]
    assert all(row["verdict"] == "ok" and row["error"] <= 1e-6 for row in proof["gradients"])


def test_every_choice(xg: Xg) -> None:
    said = xg("verify", "tiny.xg", "--every-choice")
    assert "Net act=ReLU" in said.out
    assert "Net act=tanh" in said.out


@pytest.mark.parametrize("against", [[], ["--against", "exact", "--plan", "DP"]])
def test_every_choice_of_one_block(xg: Xg, folder: Path, against: list[str]) -> None:
    text = (folder / "tiny.xg").read_text(encoding="utf-8")
    plan = "mesh N_D = 2\nplan DP of Net {\n    X [B/N_D, _]\n    t [B/N_D]\n}\n"
    (folder / "tiny.xg").write_text(text + plan, encoding="utf-8")
    said = xg("verify", "tiny.xg", "--block", "Net", "--every-choice", *against)
    assert said.code == 0
    assert "act=ReLU" in said.out
    assert "act=tanh" in said.out


def test_a_zero_gradient_needs_a_reason(xg: Xg) -> None:
    said = xg("verify", DIAGRAMS / "notation" / "mha.xg", "--set", "D=4", "--set", "N_H=2")
    assert said.code == 0
    (line,) = (line for line in said.out.splitlines() if line.startswith("b_K"))
    assert "zero: it shifts whole rows alike, which S in line" in line


def test_a_zero_without_a_reason_fails(xg: Xg, folder: Path) -> None:
    (folder / "zero.xg").write_text(
        "dim B, D\nblock Net(X [B, D]) -> Y [B, D] {\n"
        "    param W [D]\n    W -> scale(0) -> BC[d -> b=B, d] : Z [B, D]\n    X -> ⊕<-Z : Y\n}\n",
        encoding="utf-8",
    )
    said = xg("verify", "zero.xg")
    assert said.code == 1
    assert "failed: zero or nearly so, without a reason" in said.out


def test_a_zero_of_equal_rows_says_where_to_look(xg: Xg, folder: Path) -> None:
    """Keys choose among rows of a memory that begin equal, so each round leaves them equal."""
    (folder / "memory.xg").write_text(
        "dim B, S, N, D\n"
        "op Match(m [.., N, D], k [.., D]) = sum[D](m*k)\n"
        "op Written(m [.., N, D], w [.., N], x [.., D]) = m + w*x\n"
        "op Read(w [.., N], m [.., N, D]) = sum[N](w*m)\n"
        "block Cell(x [B, D]) -> y [B, D] {\n"
        "    param W [D, D]\n    state m [B, N, D] = 0.01\n"
        "    x -> •<=W : k\n    m, k -> Match -> S : w\n"
        "    m, w, x -> Written : m_2\n    w, m_2 -> Read : y\n    next m = m_2\n}\n"
        "block Net(X [B, S, D]) -> Y [B, S, D] { X -> Cell over S : Y }\n",
        encoding="utf-8",
    )
    said = xg("verify", "memory.xg", "--set", "N=3")
    assert said.code == 1
    (line,) = (line for line in said.out.splitlines() if line.startswith("Cell.W"))
    assert line.endswith("failed: zero or nearly so, without a reason")
    assert "rows of a state that all start as one number" in said.out
    right = xg("verify", DIAGRAMS / "notation" / "mlp.xg")
    assert "note:" not in right.out


def test_a_zero_of_one_draw_is_compared_at_another(xg: Xg, folder: Path) -> None:
    """At seed 2 no number of the only row gets through both rectifiers; elsewhere some do."""
    (folder / "dead.xg").write_text(
        "dim B, D\nblock Net(X [B, D]) -> Y [B, D] {\n    param W, V [D, D]\n"
        "    X -> •<=W -> ReLU -> •<=V -> ReLU : Y\n}\n",
        encoding="utf-8",
    )
    said = xg("verify", "dead.xg", "--seed", "2", "--set", "B=1", "--set", "D=2")
    assert (said.code, said.out.splitlines()[-1]) == (0, "1 block, 3 gradients: all proven")


def test_branches_that_are_not_taken_give_no_warnings(
    xg: Xg, folder: Path, recwarn: pytest.WarningsRecorder
) -> None:
    (folder / "root.xg").write_text(
        "dim B\nop root(x) = select(x > 0, sqrt(x + 0.1), -sqrt(0.1 - x))\n"
        "block Net(X [B]) -> Y [B] {\n    X -> root : Y\n}\n",
        encoding="utf-8",
    )
    assert xg("verify", "root.xg").code == 0
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('"b": db', '"b": 0.9999 * db'),
        ('"W": dW', '"W": dW + 1e-4'),
        ("return dX, dt", "return dX, 1.0001 * dt"),
    ],
)
def test_a_sabotaged_gradient_fails(
    xg: Xg, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    real = driver.load

    def sabotaged(source: str, name: str) -> ModuleType:
        assert right in source
        return real(source.replace(right, wrong), name)

    monkeypatch.setattr(driver, "load", sabotaged)
    said = xg("verify", "tiny.xg")
    assert said.code == 1
    assert "failed: " in said.out
    assert "4 of 5 gradients agree" in said.out
    assert "NumPy code and interpreter DIFFER" in said.out
    assert "1 block FAILED" in said.out


def test_a_sabotaged_forward_differs_from_the_interpreter(
    xg: Xg, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = driver.load

    def sabotaged(source: str, name: str) -> ModuleType:
        return real(source.replace("X @ W", "(1 + 1e-8) * X @ W"), name)

    monkeypatch.setattr(driver, "load", sabotaged)
    said = xg("verify", "tiny.xg")
    assert said.code == 1
    assert "DIFFER: first in Y" in said.out


def test_a_block_without_gradients_proves_nothing(xg: Xg, folder: Path) -> None:
    (folder / "ints.xg").write_text(
        "dim B\nblock Net(i [B] in 5) -> j [B, 1] in 5 {\n    i -> R : j\n}\n"
    )
    said = xg("verify", "ints.xg")
    assert said.code == 1
    assert "Net has no gradients to prove" in said.err


def test_the_first_edge_that_is_not_a_number_is_named(xg: Xg, folder: Path) -> None:
    (folder / "log.xg").write_text(
        "dim N\nop lg(x) = log(x)\n"
        "block In(g [N]) -> l [N] {\n    g -> tanh : h\n    h -> lg : l\n}\n"
        "block F(g [N]) -> y [] {\n    g -> 2 × In as rows : l\n    l -> sum[N] : y\n}\n",
        encoding="utf-8",
    )
    said = xg("verify", "log.xg", "--block", "F")
    assert said.code == 4
    assert "l of rows.0 is not a number (NaN): lg of h, line 5" in said.err
    assert "drawn around 0" in said.err


def test_a_block_is_proven_beside_one_of_its_name_in_a_used_file(xg: Xg, folder: Path) -> None:
    (folder / "used.xg").write_text(
        "dim B, D = 4\nblock A(X [B, D]) -> Y [B, D] {\n    X -> tanh : Y\n}\n"
        "block L(X [B, D]) -> Y [B, D] {\n    X -> A : Y\n}\n"
    )
    (folder / "net.xg").write_text(
        'use L from "used.xg"\ndim B, D = 4\nmesh N_D = 2\n'
        "block A(X [B, D]) -> Y [B, D] {\n    X -> GELU : Y\n}\n"
        "block Net(X [B, D]) -> Y [B, D] {\n    X -> L : Y\n}\n"
        "plan DP of A {\n    X [B/N_D, D]\n}\n"
    )
    for words in ([], ["--every-choice"]):
        said = xg("verify", "net.xg", *words).out
        assert [line for line in said.splitlines() if line.startswith("net")] == [
            "net.xg: Net",
            "net.xg: A",
        ]
    assert "net.xg: A, plan DP" in xg("verify", "net.xg", "--plan", "DP").out
