"""Programs and their forms on ranks, written out by hand, with errors to plant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DIMS = "dim B = 2, S = 3, D = 4, F = 6, N_H = 2, D_h = D/N_H, V = 7\n"


@dataclass(frozen=True)
class Rewrite:
    """Two blocks of the same parameters that compute the same.

    Each error to plant maps texts of `parts` to the wrong texts that replace them.
    """

    whole: str
    parts: str
    mistakes: Mapping[str, Mapping[str, str]]


MLP = Rewrite(
    whole="""
block F(X [B, S, D]) -> Y [B, S, D] {
    param W_up [D, F], b_up [F], W_down [F, D], b_down [D]
    X -> •<=W_up -> ⊕<-BC[B, S](b_up) -> GELU -> •<=W_down -> ⊕<-BC[B, S](b_down) : Y
}""",
    parts="""
block F(X [B, S, D]) -> Y [B, S, D] {
    param W_up [D, F], b_up [F], W_down [F, D], b_down [D]
    W_up   -> split : U_1 [D, F/2], U_2 [D, F/2]
    b_up   -> split : b_1 [F/2], b_2 [F/2]
    W_down -> split : D_1 [F/2, D], D_2 [F/2, D]
    X -> •<=U_1 -> ⊕<-BC[B, S](b_1) -> GELU -> •<=D_1 : Y_1
    X -> •<=U_2 -> ⊕<-BC[B, S](b_2) -> GELU -> •<=D_2 : Y_2
    Y_1 -> ⊕<-Y_2 -> ⊕<-BC[B, S](b_down) : Y
}""",
    mistakes={
        "bias on every rank": {"•<=D_1 : Y_1": "•<=D_1 -> ⊕<-BC[B, S](b_down) : Y_1"},
        "missing sum": {"Y_1 -> ⊕<-Y_2 ->": "Y_1 -> ⊕<-(Y_2 -> scale(0)) ->"},
        "doubled sum": {"Y_1 -> ⊕<-Y_2 ->": "Y_1 -> ⊕<-Y_2 -> scale(2) ->"},
        "mean for sum": {"Y_1 -> ⊕<-Y_2 ->": "Y_1 -> ⊕<-Y_2 -> scale(1/2) ->"},
        "wrong half of a matrix": {"•<=D_1 :": "•<=D_2 :", "•<=D_2 :": "•<=D_1 :"},
        "wrong half of a bias": {"(b_1)": "(b_2)", "(b_2)": "(b_1)"},
        "a sum before a nonlinear function": {"X -> •<=U_1": "X -> •<=U_1 -> ⊕<-(X -> •<=U_2)"},
    },
)

ATTENTION = Rewrite(
    whole="""
block F(X [B, S, D]) -> Y [B, S, D] {
    param W_Q, W_K, W_V, W_O [D, D], b_Q, b_K, b_V, b_O [D]
    X -> •<=W_Q -> ⊕<-BC(b_Q) -> R : Q [B, N_H, S, D_h]
    X -> •<=W_K -> ⊕<-BC(b_K) -> R : K [B, N_H, S, D_h]
    X -> •<=W_V -> ⊕<-BC(b_V) -> R : V [B, N_H, S, D_h]
    Q -> •<=T(K) -> SM(1/sqrt(D_h), causal) -> S -> •<=V -> R : C [B, S, D]
      -> •<=W_O -> ⊕<-BC(b_O) : Y
}""",
    parts="""
block F(X [B, S, D]) -> Y [B, S, D] {
    param W_Q, W_K, W_V, W_O [D, D], b_Q, b_K, b_V, b_O [D]
    W_Q -> split : Q_1 [D, D/2], Q_2 [D, D/2]
    W_K -> split : K_1 [D, D/2], K_2 [D, D/2]
    W_V -> split : V_1 [D, D/2], V_2 [D, D/2]
    W_O -> split : O_1 [D/2, D], O_2 [D/2, D]
    b_Q -> split : q_1 [D/2], q_2 [D/2]
    b_K -> split : k_1 [D/2], k_2 [D/2]
    b_V -> split : v_1 [D/2], v_2 [D/2]
    X -> •<=Q_1 -> ⊕<-BC(q_1) -> •<=(X -> •<=K_1 -> ⊕<-BC(k_1) -> T)
      -> SM(1/sqrt(D_h), causal) -> S -> •<=(X -> •<=V_1 -> ⊕<-BC(v_1)) -> •<=O_1 : Y_1
    X -> •<=Q_2 -> ⊕<-BC(q_2) -> •<=(X -> •<=K_2 -> ⊕<-BC(k_2) -> T)
      -> SM(1/sqrt(D_h), causal) -> S -> •<=(X -> •<=V_2 -> ⊕<-BC(v_2)) -> •<=O_2 : Y_2
    Y_1 -> ⊕<-Y_2 -> ⊕<-BC(b_O) : Y
}""",
    mistakes={
        "wrong order of heads": {"•<=O_1 :": "•<=O_2 :", "•<=O_2 :": "•<=O_1 :"},
        "keys of another head": {"•<=K_1": "•<=K_2", "•<=K_2": "•<=K_1"},
        "scaled by the width of all heads": {"SM(1/sqrt(D_h),": "SM(1/sqrt(D),"},
        "no mask": {", causal)": ")"},
        "bias of a value twice": {"⊕<-BC(v_1)": "⊕<-BC(v_1) -> ⊕<-BC(v_1)"},
        "bias on every rank": {"•<=O_2 :": "•<=O_2 -> ⊕<-BC(b_O) :"},
    },
)

SOFTMAX = Rewrite(
    whole="""
block F(X [B, S, S], U [B, S, D]) -> Y [B, S, D] {
    X -> SM(1/3) -> S -> •<=U : Y
}""",
    parts="""
op Part(a [.., K], b [.., L]) = exp(a - m) / n
    where m = max(max[K](a), max[L](b)),
          n = sum[K](exp(a - m)) + sum[L](exp(b - m))

block F(X [B, S, S], U [B, S, D]) -> Y [B, S, D] {
    X -> SM(1/3) -> split : Z_1 [B, S, 1], Z_2 [B, S, S-1]
    U -> split : U_1 [B, 1, D], U_2 [B, S-1, D]
    Z_1 -> Part<-Z_2 -> •<=U_1 : Y_1
    Z_2 -> Part<-Z_1 -> •<=U_2 -> ⊕<-Y_1 : Y
}""",
    mistakes={
        "local maximum": {"max(max[K](a), max[L](b))": "max[K](a)"},
        "local sum": {" + sum[L](exp(b - m))": ""},
        "no maximum": {"m = max(max[K](a), max[L](b))": "m = 0 * max[K](a)"},
        "sum for maximum": {"max(max[K](a), max[L](b))": "max[K](a) + max[L](b)"},
    },
)

MASKED = Rewrite(
    whole=SOFTMAX.whole.replace("SM(1/3)", "SM(1/3, causal)"),
    parts=SOFTMAX.parts.replace("SM(1/3)", "SM(1/3, causal)"),
    mistakes={
        "no mask": {", causal)": ")"},
        "another scale": {"1/3": "1/2"},
    },
)

NORM = Rewrite(
    whole="""
block F(X [B, S, D]) -> Y [B, S, D] {
    param γ, β [D]
    X -> LN(γ, β) : Y
}""",
    parts="""
op Part(x [.., D], y [.., D], γ [D], β [D]) = (x - μ) / sqrt(v + 1e-5) * γ + β
    where μ = (mean[D](x) + mean[D](y)) / 2,
          v = (mean[D]((x - μ)^2) + mean[D]((y - μ)^2)) / 2

block F(X [B, S, D]) -> Y [B, S, D] {
    param γ, β [D]
    X -> split : X_1 [B, S, D/2], X_2 [B, S, D/2]
    γ -> split : g_1 [D/2], g_2 [D/2]
    β -> split : t_1 [D/2], t_2 [D/2]
    X_1 -> Part<-X_2<-g_1<-t_1 : Y_1
    X_2 -> Part<-X_1<-g_2<-t_2 : Y_2
    Y_1 -> C<-Y_2 : Y
}""",
    mistakes={
        "local mean": {"(mean[D](x) + mean[D](y)) / 2": "mean[D](x)"},
        "local variance": {"(mean[D]((x - μ)^2) + mean[D]((y - μ)^2)) / 2": "mean[D]((x - μ)^2)"},
        "sum of means": {"mean[D](y)) / 2,": "mean[D](y)),"},
        "another epsilon": {"1e-5": "2e-5"},
        "one part's scale": {"<-g_2": "<-g_1"},
    },
)

LOSS = Rewrite(
    whole="""
block F(X [B, S, D], t [B, S] in V) -> loss [] {
    param W [D, V], b [V]
    X -> •<=W -> ⊕<-BC(b) -> CE<-t : loss
}""",
    parts="""
block F(X [B, S, D], t [B, S] in V) -> loss [] {
    param W [D, V], b [V]
    X -> split : X_1 [B, 1, D], X_2 [B, S-1, D]
    t -> split : t_1 [B, 1] in V, t_2 [B, S-1] in V
    X_1 -> •<=W -> ⊕<-BC(b) -> CE(sum)<-t_1 : l_1
    X_2 -> •<=W -> ⊕<-BC(b) -> CE(sum)<-t_2 -> ⊕<-l_1 -> scale(1/(B*S)) : loss
}""",
    mistakes={
        "mean of means": {"CE(sum)": "CE", "scale(1/(B*S))": "scale(1/2)"},
        "sum for mean": {" -> scale(1/(B*S))": ""},
        "local count": {"1/(B*S)": "1/B"},
        "missing sum": {"⊕<-l_1": "⊕<-(l_1 -> scale(0))"},
    },
)

REWRITES = {
    "a feed-forward network by columns and rows": MLP,
    "attention by heads": ATTENTION,
    "softmax by parts": SOFTMAX,
    "masked softmax by parts": MASKED,
    "layer norm by parts": NORM,
    "a loss by unequal parts": LOSS,
}
