"""Properties of single operators, beyond those of every operator."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from ops.sample import N_H, SIZES, B, D, D_h, S, S_k, S_max, Sample, V, axes, floats, ints, settle
from ops.trial import Array, Trial

from xg import ops
from xg.ir.dim import ONE, Dim, number
from xg.ir.op import Op
from xg.ir.use import AtMost, Misuse
from xg.verify.reference.evaluate import evaluate

INF = float("inf")
Own = Mapping[str, str | Dim]


def op(glyph: str) -> Op:
    found = ops.find(glyph)
    assert found
    return found


def trial(glyph: str, sample: Sample, **arrays: Array) -> Trial:
    made = Trial.make(op(glyph), sample)
    return replace(made, arrays={**made.arrays, **arrays})


def test_a_row_that_is_masked_everywhere_gives_zeros_and_no_gradient() -> None:
    z = np.array([[-INF, -INF, -INF], [0.0, -INF, 1.0]])
    softmax = trial("S", Sample({"z": floats(B, S)}), z=z)
    for one in (softmax, softmax.without_closed_form()):
        assert not np.any(one.outputs()["p"][0])
        assert not np.any(one.gradients()["z"][0])
        assert one.gradients()["z"][1, 1] == 0
    assert np.isclose(softmax.outputs()["p"][1].sum(), 1)


def test_the_last_query_sees_every_key() -> None:
    shown = trial("SM", Sample({"a": floats(S, S_k)}, {"mask": "causal"})).outputs()["z"]
    queries, keys = np.indices(shown.shape)
    assert np.array_equal(np.isfinite(shown), keys <= queries + (SIZES["S_k"] - SIZES["S"]))
    assert np.all(np.isfinite(shown[-1]))


def test_a_mask_turned_round_has_zeros_and_ones() -> None:
    turned = trial("not", Sample({"m": ints(S, below=number(2))}), m=np.array([0, 1, 1, 0, 1]))
    assert turned.outputs()["y"].tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("seed", range(5))
def test_numbers_alone_keep_the_flattened_order_or_ask(seed: int) -> None:
    """Axes of equal size look the same, so anything but NumPy's own reshape is refused."""
    rng = np.random.default_rng(seed)
    answers: set[bool] = set()
    for _ in range(60):
        factors = rng.choice([1, 2, 3, 4, 6], size=rng.integers(2, 5))
        shapes = [rng.permutation(factors) for _ in range(2)]
        merged = [np.multiply.reduceat(s, np.unique(rng.integers(0, len(s), 3))) for s in shapes]
        sizes = [[int(n) for n in s] for s in merged if np.prod(s) == np.prod(factors)]
        if len(sizes) < 2:
            continue
        source, target = (tuple(map(number, shape)) for shape in sizes)
        sample = Sample({"x": floats(*source)}, targets=(target,))
        try:
            kept = trial("R", sample)
        except Misuse:
            answers.add(False)
            continue
        (flat,) = kept.outputs().values()
        assert np.array_equal(flat, kept.arrays["x"].reshape(sizes[1]))
        answers.add(True)
    assert answers == {True, False}


def test_names_tell_axes_that_move_apart() -> None:
    heads = trial("R", Sample({"x": floats(B, S, N_H * D_h)}, targets=((B, N_H, S, D_h),)))
    b, s, n, d = (SIZES[name] for name in ("B", "S", "N_H", "D_h"))
    expected = heads.arrays["x"].reshape(b, s, n, d).swapaxes(1, 2)
    assert np.array_equal(heads.outputs()["y"], expected)


def test_a_mask_hides_what_is_0() -> None:
    sample = Sample({"a": floats(S, D), "m": ints(S, D, below=number(2))}, {"scale": 0.5})
    masked = trial("SM", sample)
    expected = np.where(masked.arrays["m"] == 1, 0.5 * masked.arrays["a"], -INF)
    assert np.array_equal(masked.outputs()["z"], expected)


def test_the_gradient_of_a_plain_scale_mask_is_the_cotangent() -> None:
    plain = trial("SM", Sample({"a": floats(S, D)}))
    assert np.array_equal(plain.gradients()["a"], plain.cotangents["dz"])
    adjoint = plain.op.adjoint_op(plain.sample.types, plain.attrs, ["a"])
    assert [data.name for data in adjoint.data] == ["dz"]
    assert adjoint.outputs == ("da",)


@pytest.mark.parametrize("glyph", ["ReLU"])
def test_the_gradient_at_the_kink_is_0(glyph: str) -> None:
    kink = trial(glyph, Sample({"x": floats(S)}), x=np.array([0.0, -0.0, 1.0]))
    assert kink.gradients()["x"].tolist()[:2] == [0.0, 0.0]


def test_cross_entropy_without_a_target_that_counts_is_0() -> None:
    sample = Sample(
        {"z": floats(B, V), "t": ints(B, below=V), "w": ints(B, below=number(2))},
    )
    nothing = np.zeros(2, dtype=np.int64)
    loss = trial("CE", sample, w=nothing)
    assert loss.outputs()["loss"] == 0
    assert not np.any(loss.gradients()["z"])


def test_cross_entropy_never_looks_up_a_target_that_does_not_count() -> None:
    types = {"z": floats(B, V), "t": ints(B, below=V), "w": ints(B, below=number(2))}
    t, w = np.array([3, 10**6]), np.array([1, 0])
    loss = trial("CE", Sample(types), t=t, w=w)
    alone = -math.log(_softmax(loss.arrays["z"][0])[3])
    assert np.isclose(loss.outputs()["loss"], alone, rtol=1e-14)
    assert not np.any(loss.gradients()["z"][1])


def test_cross_entropy_counts_what_is_neither_ignored_nor_weighed_0() -> None:
    types = {"z": floats(S, V), "t": ints(S, below=V), "w": ints(S, below=number(2))}
    t, w = np.array([3, 5, 7]), np.array([1, 1, 0])
    loss = trial("CE", Sample(types, {"ignore": 5}), t=t, w=w)
    assert np.isclose(loss.outputs()["loss"], -math.log(_softmax(loss.arrays["z"][0])[3]))


def test_cross_entropy_of_far_logits_does_not_overflow() -> None:
    z = np.array([[1e4, -1e4, 0.0], [-1e4, -1e4, -1e4]])
    sample = Sample({"z": floats(B, S), "t": ints(B, below=S)}, {"reduction": "sum"})
    loss = trial("CE", sample, z=z, t=np.array([1, 0]))
    assert np.isclose(loss.outputs()["loss"], 2e4 + math.log(3), rtol=1e-15)


@pytest.mark.parametrize(("y", "t"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_sure_mistake_costs_a_finite_number(y: float, t: float) -> None:
    sample = Sample({"y": floats(ONE), "t": floats(ONE)})
    loss = trial("BCE", sample, y=np.array([y]), t=np.array([t]))
    assert np.isclose(loss.outputs()["loss"], 126 * math.log(2))
    assert np.all(np.isfinite(loss.gradients()["y"]))


def test_logits_and_probabilities_have_one_loss() -> None:
    y = np.array([-2.0, 0.0, 3.0])
    t = np.array([0.0, 1.0, 0.25])
    types = {"y": floats(S), "t": floats(S)}
    logits = trial("BCE", Sample(types, {"form": "logits"}), y=y, t=t)
    sure = trial("BCE", Sample(types), y=1 / (1 + np.exp(-y)), t=t)
    assert np.isclose(logits.outputs()["loss"], sure.outputs()["loss"], rtol=1e-14)


@pytest.mark.parametrize(("scaling", "factor"), [("scaled", 1 / 0.6), ("unscaled", 1.0)])
def test_dropout_uses_one_mask_in_both_directions(scaling: str, factor: float) -> None:
    dropped = trial("DO", Sample({"x": floats(S, D)}, {"p": 0.4, "scaling": scaling}))
    values, keep = dropped.outputs()["y"], dropped.outputs()["keep"]
    assert keep.dtype == bool
    assert 0 < keep.mean() < 1
    assert np.allclose(values, np.where(keep, dropped.arrays["x"] * factor, 0), rtol=1e-15)
    expected = np.where(keep, dropped.cotangents["dy"] * factor, 0)
    assert np.allclose(dropped.gradients()["x"], expected, rtol=1e-15)


def test_dropout_without_a_seed_is_the_identity() -> None:
    dropped = trial("DO", Sample({"x": floats(S, D)}, {"p": 0.4}))
    still = replace(dropped, context=replace(dropped.context, key=None))
    assert np.array_equal(still.outputs()["y"], still.arrays["x"])
    assert np.array_equal(still.gradients()["x"], still.cotangents["dy"])


def test_sinusoid_is_the_formula_of_the_paper() -> None:
    width = SIZES["D_h"]
    made = trial("sinusoid", Sample(own={"S": S, "D": number(width)})).outputs()["y"]
    for position, column in np.ndindex(made.shape):
        angle = position / 10000 ** ((column - column % 2) / width)
        expected = math.cos(angle) if column % 2 else math.sin(angle)
        assert math.isclose(made[position, column], expected, rel_tol=1e-12, abs_tol=1e-15)


def test_range_counts() -> None:
    assert trial("range", Sample(own={"start": S})).outputs()["y"].tolist() == [0, 1, 2]
    step = Sample(own={"start": S, "stop": S_k})
    assert trial("range", step).outputs()["y"].tolist() == [3, 4]
    assert settle(op("range"), step)["range"] == S_k


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_scores_of_turned_vectors_depend_on_the_distance_only(layout: str) -> None:
    types = {"x": floats(S, number(6)), "positions": ints(S, below=number(100))}
    vector = np.random.default_rng(3).normal(size=6)
    turned = [
        trial(
            "RoPE",
            Sample(types, {"layout": layout}),
            x=np.broadcast_to(vector, (3, 6)).copy(),
            positions=np.array([start, start + 4, start + 9]),
        ).outputs()["y"]
        for start in (0, 31)
    ]
    scores = [y @ y.T for y in turned]
    assert np.allclose(scores[0], scores[1], rtol=1e-12)
    assert not np.allclose(scores[0][0, 1], scores[0][0, 2], rtol=1e-3)


def test_repeated_ids_add_their_gradients() -> None:
    sample = Sample({"ids": ints(S, below=V), "E": floats(V, D)})
    looked_up = trial("Emb", sample, ids=np.array([4, 4, 2]))
    dy, dE = looked_up.cotangents["dy"], looked_up.gradients()["E"]
    assert np.allclose(dE[4], dy[0] + dy[1])
    assert np.count_nonzero(dE.any(axis=1)) == 2


@pytest.mark.parametrize("wrong", [-1, SIZES["V"]])
def test_ids_outside_the_table_are_an_error(wrong: int) -> None:
    sample = Sample({"ids": ints(S, below=V), "E": floats(V, D)})
    with pytest.raises(IndexError, match="do not index 11 rows"):
        trial("Emb", sample, ids=np.array([0, wrong, 1])).outputs()
    classes = Sample({"z": floats(S, V), "t": ints(S, below=V)})
    with pytest.raises(IndexError, match="do not index 11 rows"):
        trial("CE", classes, t=np.array([0, wrong, 1])).outputs()


def test_what_only_numbers_can_settle_is_a_fact() -> None:
    positions = Sample({"ids": ints(S, below=S), "E": floats(S_max, D)})
    assert _facts("Emb", positions) == [(S, S_max)]
    assert _facts("Emb", Sample({"ids": ints(B, S, below=V), "E": floats(V, D)})) == []
    one = Sample({"x": floats(B, S)}, {"index": S_k}, axes("S"))
    assert _facts("pick", one) == [(S_k + 1, S)]
    stretch = Sample({"x": floats(B, S)}, {"start": S_k, "stop": D}, axes("S"))
    assert _facts("slice", stretch) == [(S_k, D), (D, S)]


@pytest.mark.parametrize("own", [{"side": "causal"}, {"pad": ONE}], ids=["causal", "both ends"])
def test_the_maximum_of_negative_numbers_at_an_end_is_none_beyond_it(own: Own) -> None:
    sample = Sample({"x": floats(V, S)}, {"k": number(3), "stride": ONE, **own}, axes("V"))
    pool = trial("maxpool", sample)
    x = -1 - np.abs(pool.arrays["x"])
    windows = range(len(x)) if "side" in own else range(1, 1 + len(x))
    expected = [x[max(last - 2, 0) : last + 1].max(axis=0) for last in windows]
    assert np.array_equal(replace(pool, arrays={"x": x}).outputs()["y"], expected)


def test_layer_norm_of_equal_numbers_is_the_shift() -> None:
    types = {"x": floats(S, D), "gamma": floats(D), "beta": floats(D)}
    flat = trial("LN", Sample(types), x=np.full((3, 7), 1e6))
    assert np.array_equal(flat.outputs()["y"], np.broadcast_to(flat.arrays["beta"], (3, 7)))


def test_layer_norm_does_not_cancel_far_from_0() -> None:
    near = trial("LN", Sample({"x": floats(S, D)}, {"eps": 1e-12}))
    far = replace(near, arrays={"x": near.arrays["x"] + 1e6})
    assert np.allclose(far.outputs()["y"], near.outputs()["y"], atol=1e-8)


def test_layer_norm_saves_its_statistics() -> None:
    types = {"x": floats(S, D), "gamma": floats(D), "beta": floats(D)}
    normalized = trial("LN", Sample(types))
    body = normalized.op.body(normalized.sample.types, normalized.attrs)
    assert body.caches == ("mean", "rstd")
    adjoint = normalized.op.adjoint_body(normalized.sample.types, normalized.attrs)
    assert [expr.name for expr in adjoint.free()] == ["dy", "x", "gamma", "mean", "rstd"]
    x = normalized.arrays["x"]
    caches = evaluate(body.outputs[1:], normalized.arrays, normalized.context)
    assert np.allclose(caches[0], x.mean(axis=-1, keepdims=True))
    assert np.allclose(caches[1], 1 / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5))


def _facts(glyph: str, sample: Sample) -> list[tuple[object, object]]:
    found = op(glyph)
    assert found.facts
    facts = found.facts(sample.types, settle(found, sample))
    assert all(isinstance(fact, AtMost) and fact.why for fact in facts)
    return [(fact.smaller, fact.larger) for fact in facts]


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max())
    return e / e.sum()
