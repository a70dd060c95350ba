"""The notation as a figure: every node of seed 001, section 4.3."""

from pathlib import Path

import pytest

from xg.cli import main
from xg.figures.model.dictionary import dictionary
from xg.figures.model.figure import EdgeStyle, NodeKind
from xg.figures.model.richtext import characters


def test_every_node_of_the_dictionary_is_there() -> None:
    nodes = dictionary().nodes
    glyphs = {characters(node.label) for node in nodes if node.kind is not NodeKind.TENSOR}
    assert glyphs >= {"GELU", "DO", "SM", "S", "LN", "R", "T", "BC", "AR", "AG"}
    kinds = {node.kind for node in nodes}
    assert kinds >= {NodeKind.MATMUL, NodeKind.ADD, NodeKind.COMMUNICATION}


def test_only_the_product_has_a_double_arrow() -> None:
    doubles = [edge for edge in dictionary().edges if edge.style is EdgeStyle.DOUBLE]
    heads = [edge.head for edge in doubles]
    kinds = {node.id: node.kind for node in dictionary().nodes}
    assert [kinds[head] for head in heads] == [NodeKind.MATMUL]


@pytest.mark.parametrize("ending", ["svg", "pdf", "png", "tex", "dot"])
def test_it_is_drawn_in_every_format(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"notation.{ending}"
    assert main(["ops", "--figure", str(file)]) == 0
    assert len(file.read_bytes()) > 1000


def test_another_ending_is_refused(tmp_path: Path) -> None:
    assert main(["ops", "--figure", str(tmp_path / "notation.gif")]) == 2
    assert not list(tmp_path.iterdir())
