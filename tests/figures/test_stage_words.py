"""Figures of a pipeline say in how many stages ranks share a row; overviews draw the stages."""

from __future__ import annotations

from itertools import pairwise, zip_longest
from typing import Final, Literal

import pytest
from figures.flaws import flaws
from library import shipped

import xg
from xg.figures import paint_figure
from xg.figures.model.figure import EdgeStyle, NodeKind
from xg.figures.model.richtext import characters

SOURCE: Final = """
dim B, D, N_L = 4
mesh N_P = 2

block Layer(X [B, D]) -> Y [B, D] {
    param W [D, D]
    X -> •<=W -> ⊕<-X : Y
}

block Net(X [B, D]) -> Y [B, D] {
    X -> N_L × Layer as layers : Y
}

plan PP of Net { layers [N_L/N_P] }

plan Turns of Net {
    layers [N_L/N_P]
    schedule 1F1B(4, 2)
}
"""


@pytest.mark.parametrize("view", ["forward", "backward"])
@pytest.mark.parametrize(
    ("plan", "said"),
    [(None, "× N_L"), ("PP", "× N_L in N_P stages"), ("Turns", "× N_L in 2·N_P stages")],
)
def test_a_row_has_its_stages(
    view: Literal["forward", "backward"], plan: str | None, said: str
) -> None:
    figure = xg.compile(source=SOURCE, block="Net", plan=plan).figure(view)
    texts = [characters(node.detail) for node in figure.nodes]
    assert said in texts


@pytest.mark.parametrize(
    ("plan", "ranks", "stages", "share"),
    [
        ("PP", 2, ["stage 0", "stage 1"], "× N_L/N_P"),
        ("PP", 4, ["stage 0", "each of the stages 1 to N_P − 2", "stage N_P − 1"], "× N_L/N_P"),
        (
            "Turns",
            2,
            ["stage 0", "each of the stages 1 to 2·N_P − 2", "stage 2·N_P − 1"],
            "× N_L/(2·N_P)",
        ),
    ],
)
def test_an_overview_draws_stages_and_their_sends(
    plan: str, ranks: int, stages: list[str], share: str
) -> None:
    program = xg.compile(source=SOURCE, block="Net", plan=plan, mesh={"N_P": ranks})
    figure = program.figure("overview")
    assert [characters(group.label) for group in figure.groups] == stages
    details = {node.id: characters(node.detail) for node in figure.nodes}
    assert [details[group.nodes[0]] for group in figure.groups] == [share] * len(stages)
    sends = [node for node in figure.nodes if node.kind is NodeKind.COMMUNICATION]
    assert {characters(node.label) for node in sends} == {"send N_P"}
    assert {characters(node.lines[0]) for node in sends} == {"B·D each way"}
    chain = ["X"]
    for group, send in zip_longest(figure.groups, sends):
        chain += [group.nodes[0], *([send.id] if send else [])]
    pairs = list(pairwise([*chain, "Y"]))
    solid = [(e.tail, e.head) for e in figure.edges if e.style is EdgeStyle.SINGLE]
    dashed = [(e.head, e.tail) for e in figure.edges if e.style is EdgeStyle.DASHED]
    assert solid == pairs
    assert sorted(dashed) == sorted(pairs)
    assert flaws(paint_figure(figure)[0]) == []


def test_a_stage_has_what_only_it_computes() -> None:
    """Positions and embedding are before the row, the loss is after it; both hold the embedding."""
    figure = xg.compile(shipped("transformer"), plan="PP").figure("overview")
    first, last = figure.groups
    assert {"range_1", "PE", "Emb_1", "X", "layers"} <= {*first.nodes}
    assert {"layers~2", "Y", "Z", "loss"} <= {*last.nodes}
    texts = (part for node in figure.nodes for part in (node.label, *node.lines))
    tagged = [characters(text) for text in texts if any(run.tag for run in text)]
    assert len(tagged) == 2, tagged
    assert all("send N_PP" in text for text in tagged)


def test_ranks_side_by_side_say_how_many_stages_there_are() -> None:
    figure = xg.compile(shipped("transformer"), plan="PP × DP").figure("overview")
    texts = [characters(node.detail) for node in figure.nodes]
    assert texts.count("× N_L in N_PP stages") == 2
    assert figure.subtitle == "PP × DP with 2 GPUs in each stage"
