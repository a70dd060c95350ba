"""Values that are gathered, or made again, in figures: with a name, and an arrow to their use."""

from __future__ import annotations

from functools import cache

import pytest
from figures.layout_checks import dead_ends
from library import shipped

from xg.driver import Program, compile_project
from xg.figures.model.figure import EdgeStyle, Figure, NodeKind
from xg.figures.model.richtext import characters
from xg.figures.views import View, figure
from xg.frontend.project import parse_project, read_project

TWO = """\
dim B, D = 4
op Both(X [.., D], Y [.., D]) = X * exp(Y)
block Halves(X [B, 2*D]) -> U [B, D], V [B, D] {
    X -> split : U, V
}
block F(X [B, 2*D]) -> Z [B, D] {
    X -> Halves : U, V
    U, V -> Both : Z
}
"""


@cache
def program(name: str, block: str, plan: str) -> Program:
    return compile_project(read_project(shipped(name)), block, None, plan)


def of(name: str, block: str, plan: str, view: View) -> Figure:
    return program(name, block, plan).figure(view)


def labels(found: Figure, kind: NodeKind) -> list[str]:
    """Return the labels of edges out of nodes of a kind."""
    tails = {node.id for node in found.nodes if node.kind is kind}
    return [characters(edge.label) for edge in found.edges if edge.tail in tails and edge.label]


@pytest.mark.parametrize("view", ["forward", "backward"])
def test_gathered_parameters_keep_their_names_and_have_a_use(view: View) -> None:
    found = of("gpt2", "GPT2", "FSDP", view)
    assert dead_ends(found) == []
    gathered = labels(found, NodeKind.COMMUNICATION)
    assert "γ [D]" in gathered
    if view == "forward":
        assert {"β [D]", "E [V, D]", "P [S_max, D]"} <= set(gathered)
    else:
        gradients = labels(found, NodeKind.NONLINEAR)
        assert {"dγ_i [D] partial", "dβ_i [D] partial", "dP_i [S_max, D] partial"} <= set(gradients)


def test_scores_that_are_computed_again_end_in_their_names() -> None:
    found = of("transformer", "Attention", "Scores", "backward")
    assert dead_ends(found) == []
    kinds = {node.id: node.kind for node in found.nodes}
    texts = {node.id: characters(node.label).partition(" [")[0] for node in found.nodes}
    results = {texts[e.head] for e in found.edges if kinds[e.head] is NodeKind.TENSOR}
    assert {"P", "AS", "keep"} <= results
    read = {texts[e.tail] for e in found.edges if kinds[e.tail] is NodeKind.SAVED}
    assert {"P", "AS^⊤", "keep"} <= read


def test_each_of_two_results_for_one_node_has_a_way_back() -> None:
    graphs = compile_project(parse_project(TWO.encode())).graphs
    found = figure(graphs, "overview")
    there = [edge for edge in found.edges if edge.style is not EdgeStyle.DASHED]
    back = [edge for edge in found.edges if edge.style is EdgeStyle.DASHED]
    assert sorted((e.tail, e.head, e.output) for e in there) == sorted(
        (e.head, e.tail, e.output) for e in back
    )
    assert len({edge.value for edge in back}) == len(back)
