"""Uses that operators refuse, in the words of the file."""

import re
from contextlib import nullcontext

import pytest
from ops.sample import N_H, B, D, D_h, S, S_k, Sample, T, V, axes, floats, ints, settle
from ops.samples import YARN

import xg
from xg import ops
from xg.ir.dim import ONE, Dim, number
from xg.ir.tensor import Shape, spell_shape
from xg.ir.use import Axis, AxisMap, Misuse
from xg.ops import reshape

BITS = number(2)
TRIPLE = number(3)
COUNTED = AxisMap(((Axis("-1", place=-1),),), None)
BSD = floats(B, S, D)
CASES = [
    ("⊕", Sample({"a": BSD, "b": floats(D)}), "⊕ adds [B, S, D] and [D]"),
    ("⊙", Sample({"a": BSD, "b": floats(D)}), "⊙ multiplies [B, S, D] and [D]"),
    ("•", Sample({"a": BSD, "b": floats(V, D)}), "matmul contracts D with V"),
    ("logsumexp", Sample({"x": BSD}), "logsumexp does not know over which axes"),
    ("argmax", Sample({"x": floats()}), "argmax needs an axis to choose from"),
    ("cumsum", Sample({"x": floats()}), "cumsum needs an axis to run along"),
    ("cumsum", Sample({"x": BSD}, axes=axes("B, S")), "cumsum runs along one axis"),
    ("•", Sample({"a": BSD, "b": floats(D)}), "matmul needs two axes on both sides"),
    ("•", Sample({"a": BSD, "b": floats(S, D, D)}), "matmul cannot line up"),
    ("•", Sample({"a": floats(S, D), "b": floats(B, D, S)}), "matmul cannot line up"),
    ("•", Sample({"a": floats(B, S), "b": floats(B, S, D)}),
     "matmul cannot line up [B, S] with [B, S, D]"),
    ("BC", Sample({"x": floats(D)}), "BC does not know where to repeat [D] to"),
    ("BC", Sample({"x": floats(B)}, targets=((B, S, B, D),)), "in more than one way"),
    ("R", Sample({"x": BSD}), "R does not know what to make of [B, S, D]"),
    ("R", Sample({"x": BSD}, targets=((B, D_h),)), "R cannot make [B, D_h] from [B, S, D]"),
    ("SM", Sample({"a": BSD}, {"mask": "causal"}, axes("S")),
     "SM needs the axis of queries and the axis of keys"),
    ("SM", Sample({"a": BSD}, axes=axes("S, D")), "SM works along axes only where it is causal"),
    ("R", Sample({"x": floats(S, S)}, targets=((S, S),)), "in more than one way"),
    ("R", Sample({"x": floats(S, S * D)}, targets=((S * D, S),)), "in more than one way"),
    ("R", Sample({"x": floats(*map(number, (6, 4)))}, targets=((number(4), number(6)),)),
     "R cannot make [4, 6] from [6, 4] without moving axes past each other"),
    ("T", Sample({"x": floats(D)}), "T needs two axes"),
    ("C", Sample({"x_1": BSD, "x_2": BSD}), "along more than one axis"),
    ("split", Sample({"x": BSD}, targets=(None, None)), "split needs a shape for each part"),
    ("SM", Sample({"a": BSD, "m": ints(S, D, below=BITS)}), "SM masks [B, S, D] with [S, D]"),
    ("SM", Sample({"a": BSD, "m": ints(B, S, D, below=V)}), "SM takes a mask of 0 and 1"),
    ("SM", Sample({"a": floats(S)}, {"mask": "causal"}), "a causal mask needs an axis of queries"),
    ("not", Sample({"m": ints(B, S, below=V)}), "not takes a mask of 0 and 1"),
    ("fill", Sample(own={"value": 1}), "fill needs its axes in brackets"),
    ("normal", Sample(own={"sigma": 1}), "normal needs its axes in brackets"),
    ("normal", Sample(own={"sigma": -1}), "normal has the deviation -1"),
    ("normal", Sample(own={"sigma": 0, "mean": 1}), "normal has the deviation 0"),
    ("LN", Sample({"x": BSD}, {"eps": -1}), "LN adds eps = -1 to a variance"),
    ("BN", Sample({"x": BSD}, {"eps": -1}), "BN adds eps = -1 to a variance"),
    ("BN", Sample({"x": BSD}, {"momentum": 3}), "BN moves running statistics by a share of 3"),
    ("uniform", Sample(own={"low": 2, "high": 2}), "from 2 on and below 2: there is nothing"),
    ("bernoulli", Sample(own={"p": 1.5}), "bernoulli gives 1 with probability 1.5"),
    ("BN", Sample({"x": floats(D)}), "BN needs an axis of channels, and others"),
    ("BN", Sample({"x": BSD, "gamma": floats(V)}), "BN has a number for each of [D]"),
    (
        "BN",
        Sample({"x": BSD, "gamma": floats(D), "mean": floats(D)}),
        "BN has both running statistics or none",
    ),
    ("LN", Sample({"x": floats()}), "LN needs an axis to normalize"),
    ("LN", Sample({"x": BSD, "gamma": floats(V)}), "LN normalizes D numbers"),
    ("DO", Sample({"x": BSD}, {"p": 1.0}), "DO drops with probability 1"),
    ("DO", Sample({"x": BSD}, {"p": -0.1}), "DO drops with probability -0.1"),
    ("GLU", Sample({"g": BSD, "u": floats(D)}), "GLU gates [D] by [B, S, D]"),
    ("SwiGLU", Sample({"g": BSD, "u": floats(D)}), "SwiGLU gates [D] by [B, S, D]"),
    ("Emb", Sample({"ids": ints(B, S, below=V), "E": BSD}), "Emb takes rows of a table"),
    (
        "Emb",
        Sample({"ids": ints(B, S, below=V), "E": floats(D, D)}),
        "Emb looks up ids in V in a table of D rows",
    ),
    ("Emb", Sample({"ids": ints(S, below=V), "E": floats(D, D)}), "Emb looks up ids in V"),
    ("sinusoid", Sample(own={"S": S, "D": number(9)}), "D = 9 is odd"),
    ("RoPE", Sample({"x": floats(D)}), "RoPE turns [.., S, D_h]"),
    ("RoPE", Sample({"x": floats(S, number(9))}), "RoPE turns pairs: 9 is odd"),
    ("RoPE", Sample({"x": floats(S, number(9))}), "RoPE turns pairs: 9 is odd"),
    ("RoPE", Sample({"x": floats(S, D_h)}, {"factor": 8.0}), "RoPE slows by factor, low, high"),
    ("RoPE", Sample({"x": floats(S, D_h)}, {"change": "pairs"}), "RoPE changes by pairs where"),
    ("RoPE", Sample({"x": floats(S, D_h)}, {**YARN, "trained": 6.0}), "RoPE slows no pair"),
    (
        "RoPE",
        Sample({"x": floats(S, D_h), "positions": ints(S_k, below=V)}),
        "RoPE needs S positions",
    ),
    ("sum", Sample({"x": BSD}), "sum does not know over which axes"),
    ("window", Sample({"x": BSD}, {"k": number(3)}), "window does not know along which axis"),
    ("window", Sample({"x": BSD}, {"k": number(0)}, axes("S")), "k of windows is at least 1"),
    ("window", Sample({"x": floats(number(4))}, {"k": number(6)}, COUNTED),
     "a window over 6 positions does not fit in an axis of 4"),
    ("window", Sample({"x": BSD}, {"k": number(3)}, axes("S"), ((B, S, number(3), D),)),
     "an axis of S has S - 2 windows, not S"),
    ("window", Sample({"x": BSD}, {"k": S, "side": "causal", "pad": S}, axes("S")),
     "causal windows have all their zeros at the front"),
    ("overlap", Sample({"x": BSD}, axes=axes("D")), "has no axis after the windows"),
    ("maxpool", Sample({"x": BSD}, {"k": number(3)}), "maxpool does not know along which axis"),
    ("meanpool", Sample({"x": BSD}, {"k": number(3)}), "meanpool does not know along which axis"),
    ("upsample", Sample({"x": BSD}, {"k": number(3)}), "upsample does not know which axis"),
    ("conv", Sample({"x": BSD, "K": floats(S, D, V)}, axes=axes("D")), "conv works along the axes"),
    ("conv", Sample({"x": BSD, "K": floats(D, V)}, axes=axes("S")),
     "along 1 axis has a kernel of 3 axes"),
    ("conv", Sample({"x": BSD, "K": floats(S, V, V)}, axes=axes("S")),
     "conv of D channels with a kernel for V"),
    ("conv", Sample({"x": BSD, "K": floats(S, D, V), "b": floats(D)}, axes=axes("S")),
     "conv adds a bias of V"),
    ("topk", Sample({"x": floats()}, {"k": ONE}), "topk needs an axis"),
    ("topk", Sample({"x": BSD}, {"k": ONE}, axes("B, S")), "topk chooses along one axis"),
    ("topk", Sample({"x": BSD}, {"k": D + 1}), "topk takes D + 1 of D"),
    ("topk", Sample({"x": BSD}, {"k": number(0)}), "topk takes 0 of D"),
    ("gather", Sample({"x": BSD, "ids": ints(B, below=S)}), "gather takes positions of one axis"),
    ("gather", Sample({"x": BSD, "ids": ints(V, below=S)}, axes=axes("S")),
     "gather takes positions of each [S, D]"),
    ("gather", Sample({"x": BSD, "ids": ints(B, below=V)}, axes=axes("S")),
     "gather takes positions of S"),
    ("scatter", Sample({"x": BSD, "ids": ints(B, below=V)}), "scatter does not know which axes"),
    ("scatter", Sample({"x": BSD, "ids": ints(S, below=V)}, axes=axes("S")),
     "scatter moves [B, S, D] by numbers [S]"),
    ("scatter", Sample({"x": BSD, "ids": ints(B, S, below=V)}, axes=axes("B")),
     "scatter removes the last axes that the numbers have, up to S"),
    ("dispatch", Sample({"x": BSD, "ids": ints(S, T, below=V)}, {"experts": V, "capacity": T}),
     "dispatch sends tokens [B, S, D] to experts [S, T]"),
    ("dispatch", Sample({"x": BSD, "ids": ints(B, S, T, below=V)}, {"experts": D, "capacity": T}),
     "dispatch has D experts"),
    ("combine", Sample({"y": BSD, "slot": ints(S, D, below=V), "g": floats(S, D)}),
     "combine takes results of B*S places"),
    ("combine", Sample({"y": floats(S, D), "slot": ints(S, D, below=V), "g": floats(S, D)}),
     "combine takes [S, D] places of [S, D]"),
    ("combine", Sample({"y": BSD, "slot": ints(V, T, below=B * S + 1), "g": floats(V, D)}),
     "combine weighs [V, T] places"),
    ("sum", Sample({"x": BSD}, axes=axes("V")), "[B, S, D] has no axis V"),
    ("sum", Sample({"x": floats(S, S)}, axes=axes("S")), "[S, S] has more than one axis S"),
    ("mean", Sample({"x": BSD}), "mean does not know over which axes"),
    ("mean", Sample({"x": BSD}, axes=axes("S, S")), "the brackets name an axis twice"),
    ("pick", Sample({"x": BSD}, {"index": number(0)}), "pick takes one position of one axis"),
    ("pick", Sample({"x": BSD}, {"index": S}, axes("S")), "pick takes position S of S"),
    ("slice", Sample({"x": BSD}, {"start": S, "stop": S}), "slice takes a stretch of one axis"),
    ("S", Sample({"z": floats()}), "S needs an axis to sum over"),
    ("S", Sample({"z": floats(S, S)}, axes=axes("S")), "[S, S] has more than one axis S"),
    ("S", Sample({"z": BSD}, axes=axes("S, D")), "S works along one axis"),
    (
        "LN",
        Sample({"x": BSD, "gamma": floats(D)}, axes=axes("S")),
        "LN normalizes S numbers",
    ),
    ("pick", Sample({"x": floats(B, TRIPLE)}, {"index": number(-4)}, COUNTED), "position -4 of 3"),
    ("pick", Sample({"x": BSD}, {"index": S}, axes("S")), "pick takes position S of S"),
    (
        "slice",
        Sample({"x": BSD}, {"start": number(-2), "stop": number(0)}, axes("S")),
        "slice takes positions -2 to 0 of S",
    ),
    ("C", Sample({"x_1": BSD, "x_2": BSD}, axes=axes("S, D")), "C puts its operands one after"),
    ("T", Sample({"x": BSD}, axes=axes("b, s=D, d -> b, d, s")), "sizes in its map are not read"),
    ("T", Sample({"x": BSD}, axes=axes("b, s, d -> b, (d, s)")), "T keeps every axis as it is"),
    ("T", Sample({"x": BSD}, axes=axes("b, d, d -> b, d, d")), "T has a letter for each axis: d"),
    ("T", Sample({"x": BSD}, axes=axes("b, 1, d -> b, d, 1")), "for each axis: 1 stands for S"),
    ("BC", Sample({"x": BSD}, axes=axes("b, s=D, d -> b, n=V, s, d")), "sizes belong to new axes"),
    ("BC", Sample({"x": BSD}, axes=axes("b, b, d -> b, b, d")), "for each axis: b stands for two"),
    ("BC", Sample({"x": BSD}, axes=axes("b, 1, d -> b, 1, d")), "for each axis: 1 stands for S"),
    (
        "slice",
        Sample({"x": BSD}, {"start": number(0), "stop": S + 1}, axes("S")),
        "slice takes positions 0 to S + 1 of S",
    ),
    (
        "CE",
        Sample({"z": floats(B, S, V), "t": ints(B, below=V)}),
        "CE compares [B, S, V] with targets [B]",
    ),
    ("CE", Sample({"z": floats(B, S, V), "t": ints(B, S, below=D)}), "CE chooses among V"),
    (
        "CE",
        Sample({"z": floats(B, V), "t": ints(B, below=V), "w": ints(B, below=N_H)}),
        "CE weighs every target with 0 or 1",
    ),
    ("BCE", Sample({"y": BSD, "t": floats(D)}), "BCE compares [B, S, D] with targets [D]"),
    ("MSE", Sample({"y": BSD, "t": floats(D)}), "MSE compares [B, S, D] with targets [D]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("glyph", "sample", "message"), CASES, ids=[f"{case[0]}: {case[2]}" for case in CASES]
)
def test_a_misuse_is_told_in_the_words_of_the_file(
    glyph: str, sample: Sample, message: str
) -> None:
    op = ops.find(glyph)
    assert op
    with pytest.raises(Misuse) as caught:
        settle(op, sample)
    assert message in caught.value.message
    assert all(0 <= place < len(sample.operands) for place in caught.value.notes)


def test_every_operator_that_can_refuse_does() -> None:
    refusing = {op.glyph for op in ops.table().values() if op.configure or op.limits}
    silent = {"range", "buckets", "onehot"}  # their arguments cannot be wrong alone
    elsewhere = {"grad"}  # tests/passes/test_grad.py
    assert refusing - silent - elsewhere == {glyph for glyph, _, _ in CASES}


def test_rope_takes_every_even_width() -> None:
    for width in (2, 4, 8, 10):
        settle(ops.table()["RoPE"], Sample({"x": floats(S, number(width))}))


def test_advice_fits_the_shapes() -> None:
    def advice(first: Sample) -> str:
        with pytest.raises(Misuse) as refused:
            settle(ops.table()["•"], first)
        return " ".join(refused.value.help)

    assert "op f(p [.., M], c [.., M, D])" in advice(
        Sample({"a": floats(B, S), "b": floats(B, S, D)})
    )
    assert "has to have [B]" in advice(Sample({"a": BSD, "b": floats(S, D, D)}))
    assert "BC" in advice(Sample({"a": floats(B, V, S, D), "b": floats(B, D, D)}))
    assert "along S: `-> T -> •<=… -> T`" in advice(Sample({"a": BSD, "b": floats(S, V)}))
    assert "w [D]) = sum[D]" in advice(Sample({"a": BSD, "b": floats(D)}))
    assert "w [D, E]) = sum[D]" in advice(Sample({"a": floats(D), "b": floats(D, D)}))
    assert "write `-> BC[B] -> •<=…`" in advice(Sample({"a": floats(S, D), "b": floats(B, D, V)}))
    assert "transposed" in advice(Sample({"a": BSD, "b": floats(V, D)}))


def test_a_position_beyond_an_axis_is_told_the_last_one() -> None:
    with pytest.raises(Misuse) as refused:
        settle(ops.table()["pick"], Sample({"x": BSD}, {"index": S}, axes("S")))
    assert refused.value.help == ("positions count from 0, the last one is S - 1, or -1",)


def test_equal_axes_are_answered_by_both_maps() -> None:
    with pytest.raises(Misuse) as refused:
        settle(ops.table()["R"], Sample({"x": floats(B, S, S, ONE)}, targets=((B, S, S),)))
    maps = "R[b, s, i, 1 -> b, s, i] or R[b, s, i, 1 -> b, i, s]"
    assert refused.value.help == (f"say which: {maps}",)


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((S, S), (S, S)),
        ((B, BITS * D, D), (B, D, BITS, D)),
        ((B, BITS * D, D, ONE), (D, D, ONE, B, BITS)),
        ((BITS, number(3), D), (number(3), D, BITS)),
    ],
)
def test_each_map_that_r_prints_is_one(shape: Shape, target: Shape) -> None:
    with pytest.raises(Misuse) as refused:
        settle(ops.table()["R"], Sample({"x": floats(*shape)}, targets=(target,)))
    maps = re.findall(r"R\[[^]]*\]", refused.value.help[0])
    assert maps
    for written in maps:
        head = f"dim B, S, D\nblock F(x {spell_shape(shape)}) -> y {spell_shape(target)}"
        xg.compile(source=f"{head} {{ x -> {written} : y }}")


@pytest.mark.parametrize("axis", [S, number(3)])
def test_few_ways_are_looked_at_where_there_are_many(
    axis: Dim, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    layout = vars(reshape)["_layout"]

    def counted(*arguments: object) -> object:
        looked.append(arguments)
        return layout(*arguments)

    monkeypatch.setattr(reshape, "_layout", counted)
    shape = (axis,) * 6
    with pytest.raises(Misuse) if axis == S else nullcontext():
        settle(ops.table()["R"], Sample({"x": floats(*shape)}, targets=(shape,)))
    assert len(looked) <= 3
