"""Sample uses of every operator; an operator without one fails the tests.

A new operator adds its line here. Its samples should cover every word of its own arguments and
every optional operand, present and absent.
"""

from __future__ import annotations

from collections.abc import Mapping

from ops.sample import N_H, B, D, D_h, S, S_k, S_max, Sample, T, V, axes, floats, ints

from xg.ir.dim import ONE, number
from xg.ir.use import Axis, AxisMap

ELEMENTWISE = Sample({"x": floats(S, D)}, leading=("x",))
GATED = Sample({"g": floats(S, D), "u": floats(S, D)}, leading=("g", "u"))
BITS = number(2)
TRIPLE = number(3)
YARN = {"base": 100.0, "factor": 8.0, "low": 1.0, "high": 8.0, "trained": 64.0, "change": "pairs"}
MIDDLE = AxisMap(((Axis("-2", place=-2),),), None)

SAMPLES: Mapping[str, tuple[Sample, ...]] = {
    "•": (
        Sample({"a": floats(B, S, D), "b": floats(D, V)}, leading=("a",)),
        Sample({"a": floats(B, N_H, S, D_h), "b": floats(B, N_H, D_h, S_k)}),
        Sample({"a": floats(B, N_H, S, D), "b": floats(N_H, D, D_h)}),
    ),
    "⊕": (Sample({"a": floats(S, D), "b": floats(S, D)}, leading=("a", "b")),),
    "⊙": (Sample({"a": floats(S, D), "b": floats(S, D)}, leading=("a", "b")),),
    "BC": (
        Sample({"x": floats(D)}, axes=axes("B, S")),
        Sample({"x": floats(S, D)}, peer=(B, S, D)),
        Sample({"x": floats(D)}, targets=((B, S, D),)),
        Sample({"x": floats()}, targets=((B, S),)),
        Sample({"x": floats(B, S)}, axes=axes("b, s -> b, h=N_H, q=S, s")),
        Sample({"x": floats(B, D)}, axes=axes("b, d -> (b, n=N_H), 1, d")),
        Sample({"x": ints(S, below=V)}, axes=axes("B")),
        Sample({"x": floats(B, ONE)}, axes=axes("b, 1 -> b, n=N_H")),
        Sample({"x": floats(B, ONE)}, axes=axes("b, 1 -> b, 1, n=N_H")),
    ),
    "R": (
        Sample({"x": floats(B, S, N_H * D_h)}, targets=((B, N_H, S, D_h),)),
        Sample({"x": floats(B, N_H, S, D_h)}, targets=((B, S, N_H * D_h),)),
        Sample({"x": floats(S, N_H * D)}, axes=axes("s, (n=N_H, d) -> n, (d, s)")),
        Sample({"x": floats(B, S, D)}, targets=((B, S, ONE, D),)),
        Sample({"x": ints(B, S, below=V)}, targets=((B * S,),)),
        Sample({"x": floats(S, D * 4)}, targets=((S * 2, D * 2),)),
    ),
    "T": (
        Sample({"x": floats(S, D)}, leading=("x",)),
        Sample({"x": floats(B, S, D)}, targets=((D, B, S),), fixed=("B", "S", "D")),
        Sample({"x": floats(B, S, D)}, axes=axes("b, s, d -> s, d, b")),
        Sample({"x": floats(ONE, ONE, S, D)}, axes=axes("1, 1, s, d -> 1, s, d, 1")),
    ),
    "C": (
        Sample({"x_1": floats(B, ONE, D), "x_2": floats(B, S, D)}, fixed=("S",)),
        Sample(
            {"x_1": floats(B, D), "x_2": floats(B, D), "x_3": floats(B, D)},
            targets=((B, D * 3),),
            fixed=("B",),
        ),
    ),
    "split": (
        Sample({"x": floats(B, S + S_k, D)}, targets=((B, S, D), (B, S_k, D)), leading=("x",)),
    ),
    "not": (Sample({"m": ints(B, S, below=BITS)}),),
    "slice": (
        Sample(
            {"x": floats(B, S_max, D)}, {"start": ONE, "stop": S}, axes("S_max"), fixed=("S_max",),
        ),
        Sample(
            {"x": ints(B, S_max, below=V)}, {"start": S, "stop": S_max}, axes("S_max"),
            fixed=("S_max",),
        ),
    ),
    "pick": (
        Sample({"x": floats(B, S, D)}, {"index": number(0)}, axes("S")),
        Sample({"x": floats(B, S, D)}, {"index": D - 1}, axes("D")),
        Sample({"x": ints(B, S, below=V)}, {"index": S - 1}, axes("S")),
        Sample({"x": floats(B, S)}, {"index": number(-1)}, axes("S")),
    ),
    "sum": (
        Sample({"x": floats(B, S, D)}, axes=axes("B, S")),
        Sample({"x": floats(B, S, D)}, axes=axes("S"), leading=("x",)),
        Sample({"x": floats(S, D)}, axes=axes("S, D")),
    ),
    "mean": (
        Sample({"x": floats(B, S, D)}, axes=axes("D, B")),
        Sample({"x": floats(S, D)}, axes=axes("S"), leading=("x",)),
        Sample({"x": floats(S)}, axes=axes("S")),
    ),
    "window": (
        Sample({"x": floats(B, S, D)}, {"k": TRIPLE, "pad": ONE}, axes("S"), leading=("x",)),
        Sample(
            {"x": floats(B, D)}, {"k": number(2), "dilation": TRIPLE, "side": "causal"}, axes("D")
        ),
        Sample(
            {"x": floats(S_k, D, B)}, {"k": TRIPLE, "stride": number(2)}, axes("S_k, D"),
            ((number(2), TRIPLE, TRIPLE, TRIPLE, B),), fixed=("S_k", "D"),
        ),
    ),
    "conv": (
        Sample(
            {"x": floats(B, S_k, D), "K": floats(TRIPLE, D, V), "b": floats(V)}, {"pad": ONE},
            axes("S_k"), leading=("x",),
        ),
        Sample(
            {"x": floats(S_k, D, N_H), "K": floats(TRIPLE, number(2), N_H, V)},
            {"stride": number(2), "pad": ONE}, axes("S_k, D"), ((TRIPLE, number(4), V),),
            fixed=("S_k", "D"),
        ),
        Sample(
            {"x": floats(S_k, D, N_H * 2), "K": floats(T, T, ONE, N_H * 6), "b": floats(N_H * 6)},
            {"side": "causal", "dilation": number(2), "groups": N_H * 2}, axes("S_k, D"),
        ),
        Sample(
            {"x": floats(B, S, D * N_H), "K": floats(TRIPLE, D, N_H * 2)},
            {"pad": ONE, "groups": N_H}, axes("S"),
        ),
    ),
    "maxpool": (
        Sample({"x": floats(B, S * 2, D)}, {"k": number(2)}, MIDDLE, leading=("x",)),
        Sample({"x": floats(S_k, D, B)}, {"k": TRIPLE, "stride": ONE, "pad": ONE}, axes("S_k, D")),
        Sample(
            {"x": floats(B, S)},
            {"k": TRIPLE, "stride": ONE, "side": "causal", "dilation": number(2)},
            axes("S"),
        ),
    ),
    "meanpool": (
        Sample({"x": floats(B, S * 2, D)}, {"k": number(2)}, MIDDLE, leading=("x",)),
        Sample({"x": floats(S_k, D, B)}, {"k": TRIPLE, "stride": ONE, "pad": ONE}, axes("S_k, D")),
    ),
    "upsample": (
        Sample({"x": floats(B, S, D)}, {"k": number(2)}, axes("S"), leading=("x",)),
        Sample({"x": floats(B, S, D)}, {"k": TRIPLE}, axes("S, D")),
    ),
    "overlap": (
        Sample({"x": floats(B, S, T, D)}, {"pad": ONE}, axes("S"), leading=("x",), fixed=("T",)),
        Sample({"x": floats(S, T)}, {"stride": number(2), "dilation": TRIPLE}, axes("S")),
        Sample(
            {"x": floats(S, T, D)}, {"stride": number(2), "side": "causal"}, axes("S"),
            ((S * 2, D),),
        ),
    ),
    "topk": (
        Sample({"x": floats(S, V)}, {"k": number(2)}, leading=("x",), fixed=("V",)),
        Sample({"x": floats(B, S_k, D)}, {"k": S}, axes("S_k"), fixed=("S", "S_k")),
        Sample({"x": floats(S_k)}, {"k": S_k}),
    ),
    "gather": (
        Sample({"x": floats(B, S, D), "ids": ints(B, S_k, below=S)}, axes=axes("S")),
        Sample({"x": floats(V, D), "ids": ints(B, S, below=V)}, axes=axes("V")),
        Sample({"x": floats(B, S, V), "ids": ints(B, S, below=V)}, axes=axes("V")),
        Sample({"x": floats(B, S, V), "ids": ints(B, S, T, D, below=V)}, axes=axes("V")),
        Sample({"x": floats(B, V, S, D), "ids": ints(B, T, below=V)}, axes=axes("V")),
    ),
    "scatter": (
        Sample({"x": floats(B, S_k, D), "ids": ints(B, S_k, below=S)}, axes=axes("S_k")),
        Sample({"x": floats(B, S, D), "ids": ints(B, S, below=V)}, axes=axes("B, S")),
        Sample({"x": floats(B, S, T), "ids": ints(B, S, T, below=V)}, axes=axes("T")),
        Sample({"x": floats(B, T, S, D), "ids": ints(B, T, S, below=V)}, axes=axes("T, S")),
    ),
    "dispatch": (
        Sample(
            {"x": floats(B, S_k, D), "ids": ints(B, S_k, N_H, below=T)},
            {"experts": T, "capacity": S}, targets=(None, None, None),
        ),
        Sample(
            {"x": floats(V, D), "ids": ints(V, N_H, below=S)},
            {"experts": S, "capacity": V}, targets=(None, None, None),
        ),
    ),
    "combine": (
        Sample(
            {
                "y": floats(B, T, S, D),
                "slot": ints(B, S_k, N_H, below=T * S + 1),
                "g": floats(B, S_k, N_H),
            },
        ),
        Sample({"y": floats(S, V, D), "slot": ints(V, ONE, below=S * V + 1), "g": floats(V, ONE)}),
    ),
    "S": (Sample({"z": floats(S, S_k)}, leading=("z",), fixed=("S_k",)), Sample({"z": floats(D)}),
        Sample({"z": floats(B, S, D)}, axes=axes("S"), fixed=("S",)),
    ),
    "SM": (
        Sample({"a": floats(S, B, S_k)}, {"mask": "causal", "scale": 0.5}, axes("S, S_k")),
        Sample({"a": floats(S_k, S, D)}, {"mask": "causal"}, axes("S, S_k")),
        Sample({"a": floats(S, S_k)}, leading=("a",)),
        Sample({"a": floats(S, S_k)}, {"scale": 0.3, "mask": "causal"}, leading=("a",)),
        Sample({"a": floats(S, S)}, {"mask": "causal"}),
        Sample({"a": floats(S_k, S)}, {"mask": "causal"}),
        Sample({"a": floats(S, D), "m": ints(S, D, below=BITS)}, leading=("a", "m")),
        Sample({"a": floats(S, D), "m": ints(S, D, below=BITS)}, {"scale": -2.0}),
        Sample({"a": floats(S, S_k), "m": ints(S, S_k, below=BITS)}, {"mask": "causal"}),
    ),
    "BN": (
        Sample({"x": floats(B, S, D)}, fixed=("B", "S")),
        Sample(
            {"x": floats(B, S, D), "gamma": floats(D), "beta": floats(D)}, {"eps": 0.1},
            leading=("x",), fixed=("B", "S"),
        ),
        Sample(
            {
                "x": floats(B, S, D), "gamma": floats(D), "beta": floats(D), "mean": floats(D),
                "variance": floats(D),
            },
            leading=("x",), fixed=("B", "S"), unit=("variance",), flat=("mean", "variance"),
        ),
        Sample(
            {"x": floats(B, D, T), "gamma": floats(D), "mean": floats(D), "variance": floats(D)},
            axes=axes("B, T"), fixed=("B", "T"), unit=("variance",), flat=("mean", "variance"),
        ),
    ),
    "LN": (
        Sample(
            {"x": floats(S, D), "gamma": floats(D), "beta": floats(D)},
            leading=("x",), fixed=("D",),
        ),
        Sample(
            {"x": floats(B, S, D), "gamma": floats(D), "beta": floats(D)}, {"eps": 0.1},
            fixed=("D",),
        ),
        Sample({"x": floats(D), "gamma": floats(D)}, fixed=("D",)),
        Sample({"x": floats(B, S, D)}, {"eps": 1e-12}, fixed=("D",)),
        Sample(
            {"x": floats(B, S, D, T), "gamma": floats(D), "beta": floats(D)},
            axes=axes("D"), fixed=("D",),
        ),
        Sample({"x": floats(S, D), "beta": floats(S)}, axes=axes("S"), fixed=("S",)),
    ),
    "DO": (
        Sample({"x": floats(S, D)}, {"p": 0.4}, leading=("x",)),
        Sample({"x": floats(B, S, D)}, {"p": 0.4, "scaling": "unscaled"}),
        Sample({"x": floats(D)}, {"p": 0.0}),
    ),
    "softplus": (ELEMENTWISE,),
    "logsumexp": (
        Sample({"x": floats(B, S, D)}, axes=axes("B, S")),
        Sample({"x": floats(S, D)}, axes=axes("D"), leading=("x",)),
    ),
    "argmax": (
        Sample({"x": floats(S, D)}, leading=("x",)), Sample({"x": floats(B, S, D)}, axes=axes("S")),
    ),
    "onehot": (Sample({"ids": ints(B, S, below=V)}),),
    "cumsum": (
        Sample({"x": floats(S, D)}, axes=axes("S"), leading=("x",)),
        Sample({"x": floats(B, S, D)}, axes=axes("D")),
    ),
    "ReLU": (ELEMENTWISE,),
    "GELU": (ELEMENTWISE, Sample({"x": floats(B, S, D)}, {"form": "exact"})),
    "SiLU": (ELEMENTWISE,),
    "stop": (ELEMENTWISE,),
    "sigmoid": (ELEMENTWISE,),
    "tanh": (ELEMENTWISE,),
    "scale": (Sample({"x": floats(S, D)}, {"c": -1.7}, leading=("x",)),),
    "GLU": (GATED,),
    "SwiGLU": (GATED,),
    "Emb": (
        Sample({"ids": ints(B, S, below=V), "E": floats(V, D)}, leading=("ids",)),
        Sample({"ids": ints(S, below=S), "E": floats(S_max, D)}, fixed=("S_max",)),
        Sample({"ids": ints(B, below=V), "E": floats(V, D)}),
    ),
    "sinusoid": (Sample(own={"S": S, "D": D_h}),),
    "fill": (
        Sample(own={"value": 0.5}, axes=axes("B, S, 1")),
        Sample(own={"value": -2}, axes=axes("")),
    ),
    "normal": (
        Sample(own={"sigma": 0.5}, axes=axes("B, S, 1")),
        Sample(own={"sigma": 0.25, "mean": -2}, axes=axes("")),
    ),
    "uniform": (Sample(own={"low": -1, "high": 0.5}, axes=axes("B, S")),),
    "bernoulli": tuple(Sample(own={"p": p}, axes=axes("S, D")) for p in (0, 0.3, 1)),
    "range": (Sample(own={"start": S}), Sample(own={"start": T, "stop": T + 1})),
    "buckets": tuple(
        Sample(own={"queries": S, "keys": S_k, "buckets": V, "far": T, "direction": direction})
        for direction in ("both", "past")
    ),
    "RoPE": (
        Sample({"x": floats(S, D_h)}, leading=("x",), fixed=("D_h",)),
        Sample(
            {"x": floats(B, S, D_h)},
            {"base": 100.0, "factor": 8.0, "low": 1.0, "high": 4.0, "trained": 16.0},
            fixed=("D_h",),
        ),
        Sample({"x": floats(B, S, D_h)}, YARN, fixed=("D_h",)),
        Sample({"x": floats(B, S, D_h)}, {"layout": "interleaved"}, fixed=("D_h",)),
        Sample(
            {"x": floats(B, S, D_h), "positions": ints(S, below=T)}, {"base": 100.0},
            fixed=("D_h",),
        ),
    ),
    "CE": (
        Sample({"z": floats(S, V), "t": ints(S, below=V)}, leading=("z", "t"), fixed=("V",)),
        Sample({"z": floats(S, V), "t": ints(S, below=V)}, {"reduction": "sum"}, fixed=("V",)),
        Sample({"z": floats(B, S, V), "t": ints(B, S, below=V)}, fixed=("B", "S", "V")),
        Sample(
            {"z": floats(B, S, V), "t": ints(B, S, below=V), "w": ints(B, S, below=BITS)},
            fixed=("B", "S", "V"),
        ),
        Sample(
            {"z": floats(B, S, V), "t": ints(B, S, below=V)},
            {"reduction": "sum", "ignore": 3},
            fixed=("B", "S", "V"),
        ),
        Sample(
            {"z": floats(B, S, V), "t": ints(B, S, below=V), "w": ints(B, S, below=BITS)},
            {"ignore": 3},
            fixed=("B", "S", "V"),
        ),
    ),
    "BCE": (
        Sample({"y": floats(S, ONE), "t": floats(S, ONE)}, leading=("y", "t"), unit=("y", "t")),
        Sample({"y": floats(S), "t": floats(S)}, {"reduction": "sum"}, unit=("y", "t")),
        Sample({"y": floats(S, D), "t": floats(S, D)}, {"form": "logits"}, unit=("t",)),
        Sample(
            {"y": floats(S), "t": floats(S)}, {"form": "logits", "reduction": "sum"}, unit=("t",)
        ),
    ),
    "MSE": (
        Sample({"y": floats(S, D), "t": floats(S, D)}, leading=("y", "t")),
        Sample({"y": floats(S), "t": floats(S)}, {"reduction": "sum"}),
    ),
}  # fmt: skip
