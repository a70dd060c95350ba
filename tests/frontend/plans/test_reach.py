"""How entries of plans reach into calls, and what they say of a value there."""

from __future__ import annotations

import pytest

from xg.diagnostics.diagnostic import Source, Span
from xg.ir.dim import Dim, symbol
from xg.ir.placement import BlockId, Entry, Layout, Plan
from xg.ir.tensor import Sizes
from xg.sharding.local import Clash, Misfit, Reach, cut_axes, cut_sizes, placing, reach_of

TEXT = Source("net.xg", "LM Layer Other Net")
LM, LAYER, OTHER = (0, "LM"), (0, "Layer"), (0, "Other")
LINE = Span(TEXT, 0, 2)
D, D_ff, N_H, D_h = (symbol(name) for name in ("D", "D_ff", "N_H", "D_h"))
SIZES = Sizes({"D_h": D / N_H})


def layout(*dims: tuple[Dim | None, str], rest: bool = False) -> Layout:
    """A layout by dims and the mesh axes that cut them, with blanks between."""
    cuts = tuple(tuple(axes.split()) for _, axes in dims)
    return Layout(tuple(dim for dim, _ in dims), cuts, rest)


WHOLE = Layout((), (), open=True)
ROWS = layout((D, ""), (D_ff, "N_T"))


def entry(
    block: BlockId,
    path: str,
    rest: Layout = ROWS,
    *,
    use: Layout | None = None,
    over: str = "N_T",
    plan: str = "TP",
) -> Entry:
    where = tuple(path.split("."))
    return Entry(block, where, rest, use, frozenset(over.split()), plan, LINE)


def reach(*entries: Entry) -> Reach:
    return reach_of(Plan("TP", "", entries), LM)


def test_a_plan_begins_wherever_its_block_is_called() -> None:
    found = entry(LAYER, "W")
    lm = reach(found)
    assert lm.of("W", is_param=True) == ()
    assert lm.inside(LAYER, "layers", repeated=True).of("W", is_param=True) == (found,)
    below = lm.inside(OTHER, "head", repeated=False).inside(LAYER, "x", repeated=False)
    assert below.of("W", is_param=True) == (found,)


def test_blocks_of_one_name_are_told_apart() -> None:
    twin = (1, "Layer")
    assert reach(entry(LAYER, "W")).inside(twin, "x", repeated=False).of("W", is_param=True) == ()


@pytest.mark.parametrize(
    ("path", "repeated", "reached"),
    [
        ("layers.W", False, True),
        ("*.W", False, True),
        ("layers.*.W", True, True),
        ("*.*.W", True, True),
        ("layers.*", True, True),
        ("*", True, True),
        ("*", False, True),
        ("W", False, False),
        ("other.W", False, False),
        ("layers.W", True, False),
        ("layers.*.W", False, False),
        ("layers.V", False, False),
    ],
)
def test_a_path_loses_its_segments_on_the_way(path: str, repeated: bool, reached: bool) -> None:
    inside = reach(entry(LM, path)).inside(OTHER, "layers", repeated=repeated)
    assert bool(inside.of("W", is_param=True)) is reached


def test_a_star_is_parameters_only() -> None:
    lm = reach(entry(LM, "*", WHOLE))
    assert lm.of("X", is_param=False) == ()
    assert lm.of("W", is_param=True)
    assert reach(entry(LM, "X")).of("X", is_param=False)


def test_a_name_says_more_than_the_star_of_its_plan() -> None:
    star = entry(LM, "*", layout((None, "N_D"), rest=True), over="N_D", plan="FSDP")
    named = entry(LM, "W", layout((D, ""), (D_ff, "")), over="N_D", plan="FSDP")
    other = entry(LM, "W")
    assert reach(star, named, other).of("W", is_param=True) == (named, other)
    assert reach(star, other).of("W", is_param=True) == (other, star)


def test_calls_that_are_reached_alike_have_equal_reaches() -> None:
    lm = reach(entry(LAYER, "W"), entry(LM, "layers.*.W"), entry(LM, "*", WHOLE))
    one, other = (lm.inside(LAYER, name, repeated=False) for name in ("a", "b"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != lm.inside(LAYER, "layers", repeated=True)


# ---- layouts ------------------------------------------------------------------------------------


def test_axes_are_counted_from_the_end() -> None:
    assert cut_axes(ROWS, (D, D_ff), SIZES) == {"N_T": -1}
    open_ = layout((None, "N_D"), rest=True)
    assert cut_axes(open_, (D, D_ff, D), SIZES) == {"N_D": -3}
    assert cut_axes(open_, (D,), SIZES) == {"N_D": -1}
    two = layout((D, "N_G N_T"))
    assert list(cut_axes(two, (D,), SIZES).items()) == [("N_G", -1), ("N_T", -1)]
    assert cut_axes(WHOLE, (), SIZES) == {}


def test_sizes_are_compared_as_the_file_defines_them() -> None:
    heads = layout((N_H * D_h, "N_T"))
    assert cut_axes(heads, (D,), SIZES) == {"N_T": -1}
    with pytest.raises(Misfit):
        cut_axes(heads, (D,), Sizes())


@pytest.mark.parametrize(
    ("said", "shape"),
    [
        (ROWS, (D_ff, D)),
        (ROWS, (D, D_ff, D)),
        (ROWS, (D,)),
        (layout((None, "N_D"), rest=True), ()),
        (layout((None, "")), (D, D)),
    ],
)
def test_other_dims_do_not_fit(said: Layout, shape: tuple[Dim, ...]) -> None:
    with pytest.raises(Misfit) as caught:
        cut_axes(said, shape, SIZES)
    assert (caught.value.layout, caught.value.shape) == (said, shape)


def test_layouts_are_spelled_as_they_are_written() -> None:
    assert str(layout((D, ""), (D_ff, "N_T"))) == "[D, D_ff/N_T]"
    assert str(layout((None, "N_D"), rest=True)) == "[_/N_D, ..]"
    assert str(layout((D * N_H, "N_G N_T"))) == "[N_H*D/(N_G*N_T)]"
    assert str(layout((D + 1, "N_T"), (None, ""))) == "[(D + 1)/N_T, _]"
    assert str(WHOLE) == "[..]"


# ---- entries together ---------------------------------------------------------------------------


def test_plans_join_on_different_mesh_axes() -> None:
    star = layout((None, "N_D"), rest=True)
    fsdp = entry(LM, "*", star, use=WHOLE, over="N_D", plan="FSDP")
    found = placing((entry(LM, "W"), fsdp), (D, D_ff), SIZES)
    assert found.rest == {"N_T": -1, "N_D": -2}
    assert found.use == {"N_T": -1}
    assert found.over == {"N_D", "N_T"}


def test_what_is_gathered_for_use_is_cut_last() -> None:
    """Else the pieces of a rank of N_T would not be contiguous."""
    star = layout((None, "N_D"), rest=True)
    fsdp = entry(LM, "*", star, use=WHOLE, over="N_D", plan="FSDP")
    rows = entry(LM, "W", layout((D, "N_G N_T"), (D_ff, "")), over="N_G N_T")
    found = placing((fsdp, rows), (D, D_ff), SIZES)
    assert list(found.rest.items()) == [("N_G", -2), ("N_T", -2), ("N_D", -2)]


def test_one_mesh_axis_is_spoken_of_once() -> None:
    tp, turned = entry(LM, "W"), entry(LM, "W", layout((D, "N_T"), (D_ff, "")), plan="Rows")
    whole = entry(LM, "W", layout((D, ""), (D_ff, "")), plan="None")
    assert placing((tp, entry(LM, "W", plan="Again")), (D, D_ff), SIZES).rest == {"N_T": -1}
    for second in (turned, whole):
        with pytest.raises(Clash) as caught:
            placing((tp, second), (D, D_ff), SIZES)
        assert (caught.value.axis, caught.value.first, caught.value.second) == ("N_T", tp, second)


def test_of_other_mesh_axes_nothing_is_said() -> None:
    silent = placing((entry(LM, "W", layout((D, ""), (D_ff, "")), over="N_T"),), (D, D_ff), SIZES)
    assert (silent.rest, silent.over) == ({}, {"N_T"})


def test_the_sizes_that_are_cut() -> None:
    cuts = {"N_T": -1, "N_G": -2, "N_D": -2}
    assert list(cut_sizes((D, D_ff), cuts)) == [(D, ("N_G", "N_D")), (D_ff, ("N_T",))]
