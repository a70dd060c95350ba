"""Boxes of blocks say which mask these put on scores: attention that is causal says so."""

import pytest
from library import shipped

import xg
from xg.figures.model.figure import Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views.steps import with_masks


def boxes(figure: Figure) -> list[str]:
    nodes = figure.columns[0].nodes if figure.columns else figure.nodes
    return [characters(node.label) for node in nodes if node.kind is NodeKind.BLOCK]


@pytest.mark.parametrize(
    ("name", "block", "plan", "label"),
    [
        ("flow", None, None, "Multi-Head Attention, causal"),
        ("transformer", None, None, "Multi-Head Attention, causal"),
        ("transformer", None, "Zigzag", "Multi-Head Attention: Ring, causal"),
        ("llama", "Layer", None, "Grouped-Query Attention, causal"),
    ],
)
def test_the_box_of_causal_attention_says_so(
    name: str, block: str | None, plan: str | None, label: str
) -> None:
    assert label in boxes(xg.compile(shipped(name), block, plan=plan).figure("overview"))


def test_other_attention_says_nothing() -> None:
    assert not any("causal" in box for box in boxes(xg.compile(shipped("vit")).figure("overview")))


def test_the_gradient_of_a_box_has_its_name() -> None:
    labels = boxes(xg.compile(shipped("flow")).figure("backward"))
    assert "d(Multi-Head Attention, causal)" in labels


def test_a_title_that_has_the_word_does_not_repeat_it() -> None:
    steps = xg.compile(shipped("mha")).graphs.main.steps
    assert with_masks("Causal Attention", steps) == "Causal Attention"
    assert with_masks("Attention", steps) == "Attention, causal"
