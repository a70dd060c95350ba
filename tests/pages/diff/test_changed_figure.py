"""The figure of a difference marks what changed, and nothing else."""

from dataclasses import replace
from pathlib import Path

from figures.flaws import flaws

import xg
from xg.figures import dot, paint_figure, render
from xg.figures.draw.glyph import DOTS, DrawnShape
from xg.figures.model.figure import MARKED_WIDTH, Emphasis, Figure
from xg.figures.model.richtext import characters
from xg_pages.diff import Side, changed_figure, compare

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
    assert marked(figure(tmp_path, OLD, NEW)) == (["V", "Y~2"], ["V->Y", "Y->Y~2"])


def test_a_box_is_marked_for_what_changed_inside(tmp_path: Path) -> None:
    assert marked(figure(tmp_path, OLD, INSIDE)) == (["f"], [])


REPLACED = """\
dim B, D = 8
block Net(x [B, D]) -> y [B, D] {
    param W, V [D, D]
    x -> •<=W : a -> tanh -> DO(0.1) : b -> •<=V : c -> ⊕<-x : y
}
"""


def test_a_new_edge_is_marked_if_the_operator_after_its_tail_changed_too(tmp_path: Path) -> None:
    """The tensor a went to tanh, which is gone; that it goes to the sum is new all the same."""
    new = REPLACED.replace("tanh -> DO(0.1)", "GELU").replace("⊕<-x", "⊕<-a")
    found = figure(tmp_path, REPLACED, new)
    marks = {(edge.tail, edge.head): edge.mark for edge in found.edges}
    (came,) = (ends for ends, mark in marks.items() if mark is Emphasis.CAME)
    assert came == ("a", "y")
    assert marks["x", "y"] is Emphasis.WENT


BORROWED = """\
dim B, V = 8, D = 4
mesh N_D = 2
block Words(ids [B] in V) -> Y [B, D] {
    param E [V, D]
    ids -> Emb(E) : Y
}
block Net(ids [B] in V) -> Z [B, V] {
    ids -> Words as words -> •<=T(words.E) : Z
}
plan FSDP of Net {
    ids [B/N_D]
    words.E [V/N_D, D] -> [V, D]
}
"""


def test_a_gathered_parameter_of_a_called_block_is_found(tmp_path: Path) -> None:
    path = tmp_path / "net.xg"
    path.write_text(BORROWED, encoding="utf-8")
    programs = (xg.compile(path), xg.compile(path, plan="FSDP"))
    one, many = (Side("", p.graphs, p.distributed, p.cost()) for p in programs)
    found = changed_figure(compare(one, many))
    assert any(node.label and characters(node.label).startswith("AG") for node in found.nodes)
    assert flaws(paint_figure(found)[0]) == []
    assert marked(changed_figure(compare(many, many))) == ([], [])


def test_nothing_is_marked_where_nothing_changed(tmp_path: Path) -> None:
    found = figure(tmp_path, OLD, OLD)
    assert marked(found) == ([], [])
    assert found.subtitle == "forward pass, new against old"


def test_the_title_names_files_without_folders_that_tell_nothing(tmp_path: Path) -> None:
    def titled(old: str, new: str) -> str:
        sides = (replace(side(tmp_path, "one", OLD), name=name) for name in (old, new))
        return changed_figure(compare(*sides)).subtitle

    assert titled("a/old.xg", "b/new.xg under DP × TP").endswith(
        ", new.xg under DP × TP against old.xg"
    )
    assert titled("a/net.xg", "b/net.xg").endswith(", b/net.xg against a/net.xg")


def test_marks_are_drawn_in_every_form(tmp_path: Path) -> None:
    plain, changed = figure(tmp_path, OLD, OLD), figure(tmp_path, OLD, NEW)
    boxed = figure(tmp_path, OLD, INSIDE)
    mark = "#8A2C9B"
    assert [dot(each).count(mark) for each in (plain, changed, boxed)] == [
        0,
        8,
        2,
    ]  # and texts, and the key
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
        ["W", "V", "AR N_T"],
        ["AR N_T->Y", "ReLU_1->•_2", "V->•_2", "W->•_1", "•_1->ReLU_1", "•_2->AR N_T"],
    )
    nodes, edges = marked(changed_figure(compare(one, both)))
    assert "AR N_T" in nodes
    assert "AR N_T->Y" in edges


def planned(path: Path, plan: str | None) -> Side:
    program = xg.compile(path, plan=plan)
    return Side(plan or "one device", program.graphs, program.distributed, program.cost())


BEFORE = """\
dim B, D = 8, E = 4*D
block Net(X [B, D]) -> Y [B, D] {
    param W [D, E], V [E, D], b [E]
    X -> LN : N -> •<=W : H -> ⊕<-BC(b) : A -> ReLU : G -> •<=V : P -> ⊕<-X : Y
    highlight N
}
"""
AFTER = """\
dim B, D = 8, E = 4*D
block Net(X [B, D]) -> Y [B, D] {
    param W, U [D, E], V [E, D]
    X -> LN : N
    N -> •<=W : H -> SiLU : G
    N -> •<=U : K
    G -> ⊙<-K : M -> •<=V : P -> ⊕<-X : Y
}
"""


def test_what_went_is_a_ghost_and_what_came_is_new(tmp_path: Path) -> None:
    for old, new, went, came in (
        (BEFORE, AFTER, {"A", "BC_B(b [E])"}, {"K", "M", "U"}),
        (AFTER, BEFORE, {"K", "M", "U"}, {"A", "BC_B(b [E])"}),
    ):
        found = figure(tmp_path, old, new)
        assert {name(node.id) for node in found.nodes if node.mark is Emphasis.WENT} == went
        assert {name(node.id) for node in found.nodes if node.mark is Emphasis.CAME} == came
        (changed,) = (node.id for node in found.nodes if node.mark is Emphasis.CHANGED)
        assert changed == "G"
        marks = {(edge.tail, edge.head): edge.mark for edge in found.edges}
        assert marks["X", "N"] is Emphasis.NONE  # LN, though the file highlights its result
        ends = {
            end
            for (tail, head), mark in marks.items()
            for end in (tail, head)
            if mark is not Emphasis.NONE
        }
        assert went < {name(end) for end in ends}
        display = paint_figure(found)[0]
        assert flaws(display) == []
        shapes = [part for one in display.elements for part in one.parts]
        ghosts = [one for one in shapes if isinstance(one, DrawnShape) and one.dashes == DOTS]
        assert ghosts
        assert max(one.width for one in ghosts) < MARKED_WIDTH  # fainter than what came
        for text in (render(found).decode(), dot(found), render(found, "tex").decode()):
            assert all(word in text for word in ("new", "changed", "gone"))


def test_a_way_that_turned_around_has_no_ghost_that_closes_a_circle(tmp_path: Path) -> None:
    text = "block Net(X [B]) -> Y [B] {{\n    X -> {} : H -> {} : Y\n}}\n"
    one = "dim B = 3\n" + text.format("ReLU", "tanh")
    other = one.replace("X -> ReLU : H -> tanh : Y", "X -> tanh : Y\n    Y -> ReLU : H").replace(
        "-> Y [B] {", "-> Y [B], H [B] {"
    )
    found = figure(tmp_path, one, other)
    pairs = {(edge.tail, edge.head) for edge in found.edges}
    assert not any((head, tail) in pairs for tail, head in pairs)
    assert paint_figure(found)[0].elements


def name(node: str) -> str:
    """Return a name: of a tensor without its shape, which a broadcast has inside."""
    return node if node.startswith("BC") else node.partition(" [")[0]


GATED = """\
dim B, D = 8
block Net(x [B, D]) -> y [B, D] {
    param W [D, D], U [D, D], V [D, D], b [D] = zeros
    x -> •<=W -> ⊕<-BC(b) : h
    x -> •<=U -> sigmoid : g
    h -> SiLU -> ⊙<-g -> •<=V -> ⊕<-BC(b) -> ⊕<-x : y
}
"""


def test_what_is_unchanged_is_not_marked(tmp_path: Path) -> None:
    """One operator between h and its reader: numbers of others move, and they have not changed."""
    for written, nodes, changed in (
        ("GELU -> ⊙<-g", {"GELU_1"}, ["gelu_1"]),
        ("⊙<-g", {"SiLU_1"}, ["silu_1"]),
        ("•<=W -> SiLU -> ⊙<-g", {"•_3", "W~2"}, ["matmul_3"]),
        ("SiLU -> ⊕<-g", {"⊕_1"}, ["add"]),
    ):
        new = GATED.replace("SiLU -> ⊙<-g", written)
        difference = compare(side(tmp_path, "old", GATED), side(tmp_path, "new", new))
        forward = [each.present for each in difference.edges if each.present.direction == "forward"]
        assert [edge.shown for edge in forward] == changed, written
        found = changed_figure(difference)
        assert {node.id for node in found.nodes if node.mark is not Emphasis.NONE} == nodes
        marked_edges = [edge for edge in found.edges if edge.mark is not Emphasis.NONE]
        labels = [characters(edge.label) for edge in marked_edges]
        assert not any(label.startswith(("h ", "g ")) for label in labels), (written, labels)
        assert flaws(paint_figure(found)[0]) == []
