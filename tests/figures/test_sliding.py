"""Labels slide to where their lines need not turn, and are not tried at too many places."""

from __future__ import annotations

from typing import Any, Final

import pytest

import xg
from xg.figures import paint_figure
from xg.figures.layout.choose_routes import Router

# The cell of mLSTM (Beck et al. 2024), of whose backward figure many labels have others beside.
CELL: Final = """
dim B, D = 12, D_h = 6

op LogSig(x) = -log(1 + exp(-x))
op Stable(i [B], f [B], m [B]) = max(f + m, i)
op Memory(C [B, E, D_h], f, i, m, m_t [B], v [B, E], k [B, D_h]) = a * C + exp(i - m_t) * v * k
    where a = exp(f + m - m_t)
op Norm(n [B, D_h], f, i, m, m_t [B], k [B, D_h]) = exp(f + m - m_t) * n + exp(i - m_t) * k
op Read(C [B, E, D_h], n, q [B, D_h]) = sum[D_h](C * q) / max(abs(sum[D_h](n * q)), 1)

block Cell(x [B, D]) -> h [B, D_h] {
    param W_q, W_k, W_v, W_o [D, D_h], w_i, w_f [D, 1], b_o [D_h], b_i, b_f [1]
    state C [B, D_h, D_h] = zeros
    state n [B, D_h] = zeros
    state m [B] = zeros

    x -> •<=W_q : q
    x -> •<=W_k -> scale(1/sqrt(D_h)) : k
    x -> •<=W_v : v
    x -> •<=W_o -> ⊕<-BC(b_o) -> sigmoid : o
    x -> •<=w_i -> ⊕<-BC(b_i) -> R : i [B]
    x -> •<=w_f -> ⊕<-BC(b_f) -> R -> LogSig : f [B]
    i, f, m -> Stable : m_t
    C, f, i, m, m_t, v, k -> Memory : C_t
    n, f, i, m, m_t, k -> Norm : n_t
    C_t, n_t, q -> Read -> ⊙<-o : h
    next C = C_t
    next n = n_t
    next m = m_t
}
"""


def test_a_figure_of_many_labels_is_laid_out_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many searches for a way took 17 seconds without a limit."""
    searched = 0
    search: Any = Router.cheaper

    def counted(*given: Any) -> Any:  # noqa: ANN401 - as what is counted has it
        nonlocal searched
        searched += 1
        return search(*given)

    monkeypatch.setattr(Router, "cheaper", counted)
    paint_figure(xg.compile(source=CELL, block="Cell").figure("backward"))
    assert searched < 4000
