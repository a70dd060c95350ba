"""The notation as a figure: every node of seed 001, section 4.3, in both passes."""

from pathlib import Path

import pytest
from figures.flaws import flaws

from xg.cli import main
from xg.cli.commands.ops import dictionary
from xg.figures.draw.paint import sheet
from xg.figures.model.figure import EdgeStyle, NodeKind
from xg.figures.model.richtext import characters


def test_every_node_of_the_dictionary_is_there_with_its_backward_pass() -> None:
    whole, rows = dictionary()
    glyphs = [
        {characters(node.label) for node in figure.nodes if node.kind is not NodeKind.TENSOR}
        for figure in (figure for row in rows for figure in row)
    ]
    forward, backward = set[str]().union(*glyphs[::2]), set[str]().union(*glyphs[1::2])
    assert forward >= {"•", "⊕", "GELU", "SM", "S", "LN", "R", "T", "BC_B,S", "AR N_T", "AG N_T"}
    assert backward >= {"•", "dGELU", "dSM", "dS", "dLN", "R", "T", "Σ B, S", "part N_T"}
    assert {"DO(0.1)"} <= forward
    assert {"dDO(0.1)"} <= backward
    assert sum(len(figure.nodes) for row in rows for figure in row) == len(whole.nodes)
    assert len({node.id for node in whole.nodes}) == len(whole.nodes)


def test_only_products_have_a_double_arrow() -> None:
    whole, _ = dictionary()
    kinds = {node.id: node.kind for node in whole.nodes}
    doubles = [kinds[edge.head] for edge in whole.edges if edge.style is EdgeStyle.DOUBLE]
    assert doubles == [NodeKind.MATMUL] * sum(one is NodeKind.MATMUL for one in kinds.values())


def test_the_gradient_of_a_sum_over_ranks_is_that_of_each_term() -> None:
    _, rows = dictionary()
    forward, backward = next(row for row in rows if row[0].title == "All reduce")
    taken = [characters(node.label) for node in forward.nodes]
    assert taken == ["Z_i [B, S, D] partial", "AR N_T", "Z [B, S, D]"]
    assert [characters(node.label) for node in backward.nodes] == ["dZ [B, S, D]", "dZ_i [B, S, D]"]


def test_all_of_it_is_on_one_page_without_a_flaw() -> None:
    whole, rows = dictionary()
    display = sheet(whole, rows)
    assert {node.id for node in whole.nodes} <= {one.op for one in display.elements}
    assert flaws(display) == []


@pytest.mark.parametrize("ending", ["svg", "pdf", "png", "tex", "dot"])
def test_it_is_drawn_in_every_format(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"notation.{ending}"
    assert main(["ops", "--figure", str(file)]) == 0
    assert len(file.read_bytes()) > 1000


def test_another_ending_is_refused(tmp_path: Path) -> None:
    assert main(["ops", "--figure", str(tmp_path / "notation.gif")]) == 2
    assert not list(tmp_path.iterdir())
