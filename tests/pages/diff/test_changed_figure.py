"""The figure of a difference marks what changed, and nothing else."""

from pathlib import Path

import xg
from xg.figures import dot, render
from xg.figures.model.figure import Emphasis, Figure
from xg.pages.diff import Side, changed_figure, compare

OLD = """\
dim B, D = 8, E = 4
block F(X [B, D]) -> Y [B, D] {
    X -> ReLU : Y
}
block Net(X [B, D]) -> Y [B, E] {
    param W [D, D], b [D] = zeros, V [D, E]
    X -> •<=W -> ⊕<-BC(b) : H
      -> F as f -> •<=V   : Y
}
"""
NEW = OLD.replace("E = 4", "E = 4, K = 2").replace("[D, E]", "[D, K]").replace("[B, E]", "[B, K]")
BOLD = b'stroke-width="1.9"'
INSIDE = OLD.replace("ReLU : Y", "tanh : Y")


def figure(folder: Path, old: str, new: str) -> Figure:
    return changed_figure(compare(side(folder, "old", old), side(folder, "new", new)))


def side(folder: Path, name: str, text: str) -> Side:
    path = folder / f"{name}.xg"
    path.write_text(text, encoding="utf-8")
    program = xg.compile(path)
    return Side(name, program.graphs, program.distributed, program.cost())


def marked(found: Figure) -> tuple[list[str], list[str]]:
    edges = [f"{edge.tail}->{edge.head}" for edge in found.edges if edge.mark is not Emphasis.NONE]
    return [node.id for node in found.nodes if node.mark is not Emphasis.NONE], sorted(edges)


def test_edges_of_another_shape_are_marked(tmp_path: Path) -> None:
    assert marked(figure(tmp_path, OLD, NEW)) == ([], ["V->Y", "Y->Y~2"])


def test_a_box_is_marked_for_what_changed_inside(tmp_path: Path) -> None:
    assert marked(figure(tmp_path, OLD, INSIDE)) == (["f"], [])


def test_nothing_is_marked_where_nothing_changed(tmp_path: Path) -> None:
    found = figure(tmp_path, OLD, OLD)
    assert marked(found) == ([], [])
    assert found.subtitle == "forward pass, new against old"


def test_marks_are_drawn_in_every_form(tmp_path: Path) -> None:
    plain, changed = figure(tmp_path, OLD, OLD), figure(tmp_path, OLD, NEW)
    boxed = figure(tmp_path, OLD, INSIDE)
    mark = "#8A2C9B"
    assert [dot(each).count(mark) for each in (plain, changed, boxed)] == [0, 4, 2]  # and the key
    drawn = [render(each).count(BOLD) for each in (plain, changed, boxed)]
    assert drawn == [0, 4, 2]  # a double arrow, a single one; a box; the key


CUT = """\
dim B, D = 8
mesh N_D = 2, N_T = 2
block Net(X [B, D]) -> Y [B, D] {
    param W [D, 4*D], V [4*D, D]
    X -> •<=W -> ReLU -> •<=V -> tanh : Y
}
plan DP of Net {
    X [B/N_D, D]
}
plan TP of Net {
    W [D, 4*D/N_T]
    V [4*D/N_T, D]
}
"""


def test_what_a_new_collective_gives_is_compared_with_what_was_moved(tmp_path: Path) -> None:
    """Behind the sum TP leaves the product as it was; under DP too it is a part of that."""
    path = tmp_path / "cut.xg"
    path.write_text(CUT, encoding="utf-8")
    one, tp, both = (planned(path, plan) for plan in (None, "TP", "DP × TP"))
    assert marked(changed_figure(compare(one, tp))) == (
        ["AR N_T"],
        ["ReLU_1->•_2", "V->•_2", "W->•_1", "•_1->ReLU_1", "•_2->AR N_T"],
    )
    nodes, edges = marked(changed_figure(compare(one, both)))
    assert nodes == ["AR N_T"]
    assert "AR N_T->Y" in edges


def planned(path: Path, plan: str | None) -> Side:
    program = xg.compile(path, plan=plan)
    return Side(plan or "one device", program.graphs, program.distributed, program.cost())
