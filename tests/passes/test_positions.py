"""Masks and biases computed from positions: windows, ALiBi, several documents in one row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from passes.decode_step.stepping import stepping, written

import xg
from xg.cli import main

TEXT = """\
dim B, S, D = 12, N_H = 4, D_h = D/N_H, N = 3
mesh N_T = 2

op Window(a [.., S, T]; w) = select(and(i >= j, w > i - j), a, -inf)
    where i = range[S](T - S), j = range[T]

op ALiBi(a [.., N_H, S, T]) = a - slope * abs(i - j)
    where i = range[S](T - S), j = range[T], slope = exp(-(range[N_H] + 1) * (8/N_H) * log(2))

op SameDocument(d [.., S] in N, e [.., T] in N) = equal(d, e)

block Attention(X [B, S, D], doc [B, S] in N) -> Y [B, S, D] {
    param W_Q, W_K, W_V, W_O [D, D]

    X -> •<=W_Q -> R                                             : Q [B, N_H, S, D_h]
    X -> •<=W_K -> R                                             : K [B, N_H, S, D_h]
    X -> •<=W_V -> R                                             : V [B, N_H, S, D_h]
    K -> T                                                       : KT [B, N_H, D_h, S]
    doc, doc -> SameDocument -> BC[b, s, t -> b, n=N_H, s, t]    : m [B, N_H, S, S] in 2
    Q -> •<=KT -> ALiBi -> Window(3) -> SM(1/sqrt(D_h))<-m       : Z [B, N_H, S, S]
      -> S -> •<=V -> R                                          : O [B, S, D]
      -> •<=W_O                                                  : Y
}

plan TP of Attention {
    W_Q, W_K, W_V [D, D/N_T]
    W_O [D/N_T, D]
}

plan SP of Attention {
    X, Y [B, S/N_T, D]
    K, V [B, N_H, S, D_h]
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "net.xg").write_text(TEXT, encoding="utf-8")
    return tmp_path / "net.xg"


@pytest.mark.parametrize(
    "options", [["--against", "fd,torch,jax"], ["--plan", "TP"], ["--plan", "SP"]]
)
def test_gradients_and_plans_are_proven(
    path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """TP cuts the heads, whose places give the slopes of ALiBi; SP cuts the queries."""
    assert main(["verify", str(path), *options]) == 0, capsys.readouterr().out
    assert "all proven" in capsys.readouterr().out


def test_scores_are_those_of_the_formulas(path: Path) -> None:
    sizes = {"B": 2, "S": 5}
    program = xg.compile(path, sizes=sizes)
    draw = np.random.default_rng(0)
    params = {name: draw.standard_normal((12, 12)) for name in program.params}
    X, doc = draw.standard_normal((2, 5, 12)), draw.integers(0, 3, (2, 5))
    outputs, _ = program.load().forward(params, {"X": X, "doc": doc})
    heads = {name: (X @ params[f"W_{name}"]).reshape(2, 5, 4, 3).swapaxes(1, 2) for name in "QKV"}
    i, j = np.arange(5)[:, None], np.arange(5)
    slopes = np.array([2.0 ** (-2 * (head + 1)) for head in range(4)])
    scores = heads["Q"] @ heads["K"].swapaxes(-1, -2) - slopes[:, None, None] * abs(i - j)
    seen = (i >= j) & (i - j < 3) & (doc[:, None, :, None] == doc[:, None, None, :])
    weights = np.exp(scores / np.sqrt(3)) * seen
    weights /= weights.sum(-1, keepdims=True)
    expected = (weights @ heads["V"]).swapaxes(1, 2).reshape(2, 5, 12) @ params["W_O"]
    np.testing.assert_allclose(outputs["Y"], expected, atol=1e-12)


def test_a_step_of_generation_sees_what_the_whole_text_sees() -> None:
    one = stepping(written(TEXT))
    for pieces in ((1,) * 7, (3, 4), (2, 1, 4)):
        assert np.abs(one.stepped(pieces) - one.expected()).max() < 1e-12


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ("select(w > abs(i - j), a, -inf)", "no past and no future"),
        ("select(and(i + 1 >= j, w > i - j), a, -inf)", "the next position is seen"),
        ("select(and(i >= j, w > i - j), a, -inf) * (0 - 1/S)", "the sign turns -inf round"),
    ],
)
def test_a_mask_that_shows_later_positions_has_no_step(window: str, why: str) -> None:
    shipped = "select(and(i >= j, w > i - j), a, -inf)"
    assert shipped in TEXT
    with pytest.raises(xg.DiagnosticError) as caught:
        written(TEXT.replace(shipped, window)).step()
    codes = {each.code for each in caught.value.diagnostics}
    assert codes <= {"XG0551", "XG0553"}, why
