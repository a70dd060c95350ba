"""The differences between two compilations, counted by hand on a small net."""

from pathlib import Path

import pytest

import xg
from xg.ir.dim import symbol
from xg_pages.diff import Difference, Edge, Side, compare

NET = """\
dim B, D = 8, D_ff = 4*D, N_L = 2
mesh N_T = 4

block MLP(X [B, D]) -> Y [B, D] {
    param W [D, D_ff], V [D_ff, D]
    X -> •<=W -> ReLU : U [B, D_ff]
      -> •<=V : Y
}

block Net(X [B, D]) -> Y [B, D] {
    X -> N_L × MLP as layers -> tanh : Y
}

plan TP of MLP {
    W [D, D_ff/N_T]
    V [D_ff/N_T, D]
}
"""
B, D, N_L, N_T = map(symbol, ("B", "D", "N_L", "N_T"))
Told = dict[str, tuple[str | None, str | None]]


@pytest.fixture
def side(tmp_path: Path) -> "type[Sides]":
    Sides.folder = tmp_path
    return Sides


class Sides:
    """Compilations of texts in a folder."""

    folder: Path

    @classmethod
    def of(cls, text: str, plan: str | None = None, **sizes: int) -> Side:
        path = cls.folder / "net.xg"
        path.write_text(text, encoding="utf-8")
        program = xg.compile(path, plan=plan, sizes=sizes)
        return Side(plan or "one device", program.graphs, program.distributed, program.cost())


def told(difference: Difference, direction: str) -> Told:
    """The layout of each changed edge before and after, by its `where.name`."""
    found: Told = {}
    for change in difference.edges:
        edge = change.present
        if edge.direction == direction:
            found[f"{edge.where}.{edge.name}"] = (lies(change.before), lies(change.after))
    return found


def lies(edge: Edge | None) -> str | None:
    """Its shape, with a + for every axis over which it is a term."""
    return edge and edge.shape + "+" * len(edge.terms)


def test_a_plan_changes_what_it_cuts_and_what_follows(side: type[Sides]) -> None:
    difference = compare(side.of(NET), side.of(NET, "TP"))
    assert told(difference, "forward") == {
        "layers.*.W": ("[D, D_ff]", "[D, D_ff/N_T]"),
        "layers.*.V": ("[D_ff, D]", "[D_ff/N_T, D]"),
        "layers.*.•_1": ("[B, D_ff]", "[B, D_ff/N_T]"),
        "layers.*.U": ("[B, D_ff]", "[B, D_ff/N_T]"),
        "layers.*.Y": ("[B, D]", "[B, D]+"),
    }
    assert told(difference, "backward") == {
        "layers.*.dV": ("[D_ff, D]", "[D_ff/N_T, D]"),
        "layers.*.dU": ("[B, D_ff]", "[B, D_ff/N_T]"),
        "layers.*.dX": ("[B, D]", "[B, D]+"),
        "layers.*.dW": ("[D, D_ff]", "[D, D_ff/N_T]"),
    }


def test_a_plan_brings_collectives_and_the_way_back_takes_them(side: type[Sides]) -> None:
    one, parallel = side.of(NET), side.of(NET, "TP")
    there, back = compare(one, parallel), compare(parallel, one)
    assert [each.before for each in there.collectives] == [None, None]
    assert [each.after and each.after.of for each in there.collectives] == ["Y", "dX"]
    assert [each.after for each in back.collectives] == [None, None]
    assert {each.present.payload for each in there.collectives} == {N_L * B * D}


def test_costs_stand_side_by_side(side: type[Sides]) -> None:
    costs = compare(side.of(NET), side.of(NET, "TP")).costs
    assert costs["parameters"] == (N_L * D * D * 8, N_L * D * D * 8 / N_T)
    assert costs["sent ring"][1] == (N_T - 1) / N_T * 2 * 2 * N_L * B * D


def test_nothing_differs_from_itself(side: type[Sides]) -> None:
    difference = compare(side.of(NET, "TP"), side.of(NET, "TP"))
    assert difference.is_empty
    assert all(old == new for old, new in difference.costs.values())


def test_a_new_version_is_told_edge_by_edge(side: type[Sides]) -> None:
    newer = NET.replace("ReLU : U", "GELU : U").replace("-> tanh : Y", "-> tanh : T -> tanh : Y")
    difference = compare(side.of(NET), side.of(newer))
    made = {
        each.present.name: (each.before and each.before.maker, each.after and each.after.maker)
        for each in difference.edges
        if each.present.direction == "forward"
    }
    assert made == {"U": ("ReLU", "GELU"), "T": (None, "tanh")}
    gone = compare(side.of(newer), side.of(NET))
    assert "T" in {each.present.name for each in gone.edges if each.after is None}


def test_a_size_that_is_defined_otherwise_is_another_shape(side: type[Sides]) -> None:
    difference = compare(side.of(NET), side.of(NET.replace("4*D", "2*D")))
    (w,) = (each for each in difference.edges if each.present.name == "W")
    assert (w.before and w.before.dims, w.after and w.after.dims) == ("[D, 4*D]", "[D, 2*D]")
    assert difference.sizes == {"D_ff": (32, 16)}


def test_another_number_is_told_and_changes_no_edge(side: type[Sides]) -> None:
    difference = compare(side.of(NET), side.of(NET, D=16))
    assert (difference.edges, difference.is_empty) == ((), False)
    assert difference.sizes == {"D": (8, 16), "D_ff": (32, 64)}


def test_a_collective_that_sends_more_is_changed(side: type[Sides]) -> None:
    wider = NET.replace("N_L × MLP as layers", "N_L × MLP as layers -> N_L × MLP as more")
    difference = compare(side.of(NET, "TP"), side.of(wider, "TP"))
    (first, second) = difference.collectives
    assert first.before
    assert first.after
    assert (first.before.calls, first.after.calls) == (N_L, N_L * 2)
    assert second.present.of == "dX"
