"""Sample uses of fused operators; those of the language have theirs beside `ops`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ops.sample import N_H, B, D, D_h, S, S_k, Sample, V, floats, ints
from ops.samples import SAMPLES as OF_LANGUAGE

from xg import ops
from xg.ir.dim import number, symbol
from xg.ir.op import Op
from xg_kernels import grouped_attention
from xg_kernels.fuse import fusions

BITS = number(2)
QKV = {"q": floats(S, D_h), "k": floats(S_k, D_h), "v": floats(S_k, D)}
SELF = {"q": floats(B, N_H, S, D_h), "k": floats(B, N_H, S, D_h), "v": floats(B, N_H, S, D_h)}
TWO = number(2)
FIRST_TWO = {"q": floats(B, TWO, D_h), "k": floats(B, TWO, D_h), "v": floats(B, TWO, D)}
CROSS = {"q": floats(B, S, D_h), "k": floats(B, S_k, D_h), "v": floats(B, S_k, D)}
MASKED = {**CROSS, "m": ints(B, S, S_k, below=BITS)}
N_E = symbol("T")
CHOICE = floats(B, S, symbol("A_2"))
ROUTED = {
    "x": floats(B, S, D),
    "p": CHOICE,
    "e": ints(*CHOICE.shape, below=N_E),
    "w_in": floats(N_E, D, V),
}
HIDDEN = {**SELF, "m": ints(B, N_H, S, S, below=BITS)}
PAIRS = {"q": floats(B, TWO * N_H, S, D_h), "k": floats(B, N_H, S, D_h), "v": floats(B, N_H, S, D)}
NEWEST = {**PAIRS, "q": floats(B, TWO * N_H, number(1), D_h)}
LONG = {"q": floats(B, S_k, D_h), "k": floats(B, S, D_h), "v": floats(B, S, D_h)}

SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "linear": (
        Sample({"x": floats(B, S, D), "w": floats(D, V), "b": floats(V)}),
        Sample({"x": floats(S, D), "w": floats(D, V), "b": floats(V)}),
        Sample({"x": floats(B, N_H, S, D), "w": floats(D, V), "b": floats(V)}),
    ),
    "experts": (
        Sample({**ROUTED, "w_up": floats(N_E, D, V), "w_out": floats(N_E, V, D)}, {"form": "silu"}),
        Sample({**ROUTED, "w_out": floats(N_E, V, D)}, {"form": "gelu"}),
        Sample({**ROUTED, "w_out": floats(N_E, V, D)}, {"form": "relu"}),
    ),
    "local_attention": (
        Sample({**CROSS, "q": floats(B, number(1), D_h)}, {"scale": 0.4, "behind": 1, "ahead": 0}),
        Sample({**CROSS, "q": floats(B, number(1), D_h)}, {"behind": 9, "ahead": 2}),
        Sample(QKV, {"scale": 0.4, "behind": 1, "ahead": 1}),
        Sample(SELF, {"scale": 0.4, "behind": 1, "ahead": 0}),
        Sample(SELF, {"behind": 0, "ahead": 2}),
        Sample(CROSS, {"scale": 0.4, "behind": 2, "ahead": 0}),
        Sample(MASKED, {"scale": 0.4, "behind": 3, "ahead": 0}),
        Sample(HIDDEN, {"scale": 0.4, "behind": 2, "ahead": -1}),
        Sample(LONG, {"scale": 0.4, "behind": 1, "ahead": 0}),
    ),
    "grouped local attention": (
        Sample(NEWEST, {"scale": 0.4, "behind": 1, "ahead": 0}),
        Sample(NEWEST, {"behind": 9, "ahead": 2}),
        Sample(PAIRS, {"scale": 0.4, "behind": 2, "ahead": 0}),
        Sample(PAIRS, {"behind": 1, "ahead": -1}),
    ),
    "grouped attention": (
        Sample(NEWEST, {"scale": 0.4, "mask": "causal"}),
        Sample(PAIRS, {"scale": 0.4, "mask": "causal"}),
        Sample(PAIRS, {"scale": 2.0}),
    ),
    "attention": (
        Sample({**CROSS, "q": floats(B, number(1), D_h)}, {"scale": 0.4, "mask": "causal"}),
        Sample(QKV, {"scale": 2.0}),
        Sample(QKV, {"mask": "causal", "p": 0.3}),
        Sample(SELF, {"scale": 0.4, "mask": "causal"}),
        Sample(SELF, {"scale": 0.4, "mask": "causal", "p": 0.3}),
        Sample(FIRST_TWO, {"scale": 0.4, "mask": "causal"}),
        Sample(CROSS, {"scale": 0.4, "mask": "causal"}),
        Sample(CROSS, {"scale": 0.4, "p": 0.3, "scaling": "unscaled"}),
        Sample(MASKED, {"scale": 0.4}),
        Sample(MASKED, {"scale": 0.4, "mask": "causal", "p": 0.3}),
        Sample(HIDDEN, {"scale": 0.4}),
        Sample(LONG, {"scale": 0.4, "mask": "causal"}),
        Sample(LONG, {"mask": "causal", "p": 0.3, "scaling": "unscaled"}),
    ),
}


def uses() -> Iterator[tuple[Op, Sample, str]]:
    """Every sample of every operator, fused ones too."""
    for glyph, samples in OF_LANGUAGE.items():
        for place, sample in enumerate(samples):
            yield ops.table()[glyph], sample, f"{ops.table()[glyph].name}-{place}"
    for fusion in (*fusions(), *grouped_attention.FUSIONS):
        for place, sample in enumerate(SAMPLES[fusion.op.name]):
            yield fusion.op, sample, f"{fusion.op.name}-{place}"
