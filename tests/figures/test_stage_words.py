"""Figures of a pipeline say in how many stages ranks share a row."""

from __future__ import annotations

from typing import Final, Literal

import pytest

import xg
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


@pytest.mark.parametrize("view", ["forward", "backward", "overview"])
@pytest.mark.parametrize(
    ("plan", "said"),
    [(None, "× N_L"), ("PP", "× N_L in N_P stages"), ("Turns", "× N_L in 2·N_P stages")],
)
def test_a_row_has_its_stages(
    view: Literal["forward", "backward", "overview"], plan: str | None, said: str
) -> None:
    figure = xg.compile(source=SOURCE, block="Net", plan=plan).figure(view)
    texts = [characters(node.detail) for node in figure.nodes]
    texts += [characters(group.label).removeprefix("Layer ") for group in figure.groups]
    assert said in texts
