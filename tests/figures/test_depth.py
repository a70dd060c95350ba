"""Overviews with calls opened to a depth: `--depth N`."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from figures.flaws import flaws
from library import shipped

import xg
from xg.driver import Program
from xg.figures import dot, painted
from xg.figures.layout.lanes import lanes
from xg.figures.model.figure import EdgeStyle, Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.model.structure import nested


@cache
def compiled(name: str) -> Program:
    return xg.compile(shipped(name))


def _figure(name: str, depth: int | None) -> Figure:
    return compiled(name).figure("overview", depth=depth)


def _blocks(figure: Figure) -> list[str]:
    return [node.id for node in figure.nodes if node.kind is NodeKind.BLOCK]


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        *[("gpt2", 2), ("t5", 2), ("transformer", 2), ("vae", 1)],
        *[("dpo", 1), ("perceiver", 3)],  # calls that share parameters
    ],
)
@pytest.mark.parametrize("rightward", [False, True])
def test_an_opened_overview_has_no_flaw(name: str, depth: int, *, rightward: bool) -> None:
    figure = replace(_figure(name, depth), rightward=rightward)
    display, placed = painted(figure)
    assert placed.warning == ""
    assert flaws(display, figure.groups) == []


def test_each_depth_opens_the_calls_of_the_one_before() -> None:
    assert _blocks(_figure("gpt2", 0)) == ["layers"]
    assert _blocks(_figure("gpt2", 1)) == ["attn"]
    assert _blocks(_figure("gpt2", 2)) == []
    assert _figure("gpt2", 3) == _figure("gpt2", 2)


def test_calls_that_share_parameters_have_a_frame_each() -> None:
    figure = _figure("dpo", 1)
    assert [group.id for group in figure.groups] == ["policy", "policy~2"]
    assert not {*figure.groups[0].nodes} & {*figure.groups[1].nodes}


def test_equal_layers_are_opened_once_and_say_how_often() -> None:
    figure = _figure("gpt2", 2)
    assert [characters(group.label) for group in figure.groups] == [
        "Transformer Layer × N_L",
        "Multi-Head Attention ",
    ]
    assert [group.id for group in figure.groups] == ["layers", "layers.attn"]
    assert nested(figure.groups) == {None: [0], 0: [1]}
    text = dot(figure)
    assert text.index("subgraph cluster_0") < text.index("    subgraph cluster_1")


def test_gradients_run_through_opened_calls() -> None:
    """Each dashed arrow is beside a solid one, and the opened heads have some."""
    figure = _figure("gpt2", 2)
    inside = set(figure.groups[1].nodes)
    solid = {(e.tail, e.head) for e in figure.edges if e.style is not EdgeStyle.DASHED}
    dashed = {(e.head, e.tail) for e in figure.edges if e.style is EdgeStyle.DASHED}
    assert dashed <= solid
    within = {pair for pair in solid if inside.issuperset(pair)}
    assert within
    assert within <= dashed


def test_a_frame_has_its_name_in_its_first_line() -> None:
    opened = [painted(_figure(name, None))[1] for name in ("gpt2", "transformer", "vit", "llama")]
    frames = [frame for placed in opened for frame in lanes(placed).frames.values()]
    assert len(frames) >= 4
    for frame in frames:
        assert frame.text.top - frame.box.top < frame.text.height
        assert frame.text.right <= frame.box.right
