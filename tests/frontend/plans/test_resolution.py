"""Plans of files as data: their entries, products, meshes, and what they reach in a program."""

from __future__ import annotations

from pathlib import Path

import pytest

import xg
from xg.frontend.choices import check_choices
from xg.frontend.plan_in_choices import find_plan, plans_of
from xg.frontend.project import Project, read_project
from xg.frontend.typed import type_project
from xg.sharding.apply_plan import PlacedValue, placed_values, with_mesh

PROGRAMS = Path(__file__).parents[2] / "programs"
PLANS = read_project(PROGRAMS / "08_plans.xg")
NODE_I = read_project(PROGRAMS / "08_node_i.xg")
SIZES = {"N_T": 2, "N_D": 3, "N_G": 2, "B": 6, "S": 4}

NET = """\
dim B, D = 8, D_ff = 4*D
mesh N_D = 2, N_T = 2
option norm = none | tanh
block Net(X [B, D]) -> Y [B, D] {
    param W [D, D_ff], V [D_ff, D]
    X -> tanh if norm = tanh : H [B, D]
      -> •<=W -> •<=V        : Y
}
"""


def project(folder: Path, text: str, **others: str) -> Project:
    for name, other in others.items():
        (folder / f"{name}.xg").write_text(other, encoding="utf-8")
    (folder / "net.xg").write_text(text, encoding="utf-8")
    return read_project(folder / "net.xg")


def reached(
    project: Project, plan: str, block: str = "LM", **settings: str | int
) -> list[PlacedValue]:
    sizes = {} if project is not PLANS else SIZES
    return list(placed_values(type_project(project, block, {**sizes, **settings}, plan)))


def cuts(found: list[PlacedValue]) -> dict[str, dict[str, int]]:
    return {
        f"{one.planned.graph.block}.{one.planned.value.name}": dict(one.planned.placing.rest)
        for one in found
    }


def test_a_plan_holds_in_every_call_of_its_block() -> None:
    found = cuts(reached(PLANS, "TP"))
    assert found["Attention.W_Q"] == found["Attention.b_Q"] == {"N_T": -1}
    assert found["Attention.W_O"] == found["MLP.W_down"] == {"N_T": -2}
    assert not any(name.startswith("LM.") for name in found)


def test_every_parameter_rests_in_pieces_and_is_used_whole() -> None:
    found = reached(PLANS, "FSDP", N_D=2)
    params = [one for one in found if one.planned.value.role == "param"]
    names = {f"{one.planned.graph.block}.{one.planned.value.name}" for one in params}
    assert {"LM.E", "Layer.gamma_1", "Attention.W_Q", "MLP.b_up"} <= names
    for one in params:
        rank = len(one.planned.graph.types[one.planned.value].shape)
        assert (one.planned.placing.rest, one.planned.placing.use) == ({"N_D": -rank}, {})
    assert cuts(found)["LM.ids"] == {"N_D": -2}


def test_products_hold_what_their_factors_hold() -> None:
    plans = plans_of(PLANS)
    assert plans["DP_TP"].entries == (*plans["DP"].entries, *plans["TP"].entries)
    assert plans["DP_TP"].title == "Hybrid"
    assert find_plan(PLANS, "DP * TP").entries == plans["DP_TP"].entries
    assert find_plan(PLANS, " TP×SP ").entries == plans["SP"].entries  # SP is TP × Stream
    assert find_plan(PLANS, "DP × TP").name == "DP × TP"
    found = cuts(reached(PLANS, "Everything"))
    assert (found["LM.E"], found["LM.ids"]) == ({"N_T": -2}, {"N_D": -2})


def test_an_entry_speaks_on_all_mesh_axes_of_its_plan() -> None:
    plans = plans_of(PLANS)
    assert {entry.over for entry in plans["TP"].entries} == {frozenset({"N_G", "N_T"})}
    both = {entry.plan: entry.over for entry in plans["DP_TP"].entries}
    assert both == {"DP": {"N_D"}, "TP": {"N_G", "N_T"}}


def test_the_mesh_stands_in_the_order_in_which_it_cuts() -> None:
    plans = plans_of(PLANS, {"N_T": 4})
    assert plans["DP_TP"].mesh == {"N_D": 2, "N_G": 2, "N_T": 4}
    assert list(plans["DP_TP"].mesh) == ["N_D", "N_G", "N_T"]  # declared with N_G last


def test_a_program_has_the_mesh_axes_that_cut_something_in_it() -> None:
    def mesh(block: str, plan: str | None) -> dict[str, int]:
        return dict(with_mesh(type_project(PLANS, block, SIZES, plan)).mesh)

    assert mesh("LM", "TP") == {"N_T": 2}
    assert mesh("GQA", "TP") == {"N_G": 2, "N_T": 2}
    assert mesh("LM", "DP_TP") == {"N_D": 3, "N_T": 2}
    assert mesh("LM", None) == {}


def test_a_plan_is_silent_on_names_that_the_choice_does_not_have(tmp_path: Path) -> None:
    net = project(tmp_path, NET + "plan P of Net {\n    H [B/N_D, D]\n}\n")
    plain = reached(net, "P", "Net")
    chosen = reached(net, "P", "Net", norm="tanh")
    assert [one.planned.value.name for one in plain] == ["X"]  # H is another name of X
    assert [one.planned.value.name for one in chosen] == ["H"]


def test_the_importing_file_wins_block_by_block(tmp_path: Path) -> None:
    other = NET + (
        "plan TP of Net {\n    W [D, D_ff/N_T]\n    V [D_ff/N_T, D]\n}\n"
        "plan DP of Net {\n    X [B/N_D, D]\n}\nplan Both = DP × TP\n"
    )
    text = (
        'use Net from "other.xg"\nmesh N_T = 4\n'
        "plan TP of Net {\n    W [D, D_ff/N_T]\n}\n"
        "block Two(X [B, D]) -> Y [B, D] {\n    X -> Net as a -> Net as b : Y\n}\n"
        "plan DP of Two {\n    X [B/N_D, D]\n}\n"
    )
    net = project(tmp_path, text, other=other)
    plans = plans_of(net)
    assert list(plans) == ["TP", "DP", "Both"]
    assert plans["DP"].mesh == {"N_D": 2}
    said = [(entry.block[1], *entry.path) for entry in plans["Both"].entries]
    assert said == [("Net", "X"), ("Two", "X"), ("Net", "W")]
    assert plans["TP"].mesh == {"N_T": 4}


def test_plans_of_blocks_that_are_not_needed_are_left_out(tmp_path: Path) -> None:
    other = NET + (
        "block Alone(X [B, D]) -> Y [B, D] {\n    X -> Net : Y\n}\n"
        "plan TP of Net {\n    W [D, D_ff/N_T]\n}\n"
        "plan TP of Alone {\n    X [B, D/N_D]\n}\n"
        "plan DP of Alone {\n    X [B/N_D, D]\n}\nplan Both = DP × TP\nplan Again = Both × TP\n"
    )
    text = 'use Net from "other.xg"\nblock Two(X [B, D]) -> Y [B, D] {\n    X -> Net : Y\n}\n'
    plans = plans_of(project(tmp_path, text, other=other))
    assert {name: list(plan.mesh) for name, plan in plans.items()} == {"TP": ["N_T"]}
    assert set(plans_of(read_project(tmp_path / "other.xg"))) == {"TP", "DP", "Both", "Again"}


def test_paths_lead_through_calls_of_options(tmp_path: Path) -> None:
    text = NET + (
        "option ffn = Net | Other\n"
        "block Other(X [B, D]) -> Y [B, D] {\n    param G [D, D]\n    X -> •<=G : Y\n}\n"
        "block Two(X [B, D]) -> Y [B, D] {\n    X -> ffn -> 2 × ffn as rows : Y\n}\n"
        "plan P of Two {\n    ffn.W [D, D_ff/N_T]\n    rows.*.G [D/N_D, D]\n    *.Y [B/N_D, D]\n}\n"
    )
    net = project(tmp_path, text)
    assert cuts(reached(net, "P", "Two")) == {"Net.W": {"N_T": -1}, "Net.Y": {"N_D": -2}}
    assert cuts(reached(net, "P", "Two", ffn="Other")) == {
        "Other.G": {"N_D": -2},
        "Other.Y": {"N_D": -2},
    }


# ---- shapes in blocks ---------------------------------------------------------------------------


def test_a_shape_that_is_cut_is_the_whole_with_a_layout(tmp_path: Path) -> None:
    text = (
        "dim B, D = 8, D_ff = 4*D\nmesh N_G = 2, N_T = 2\n"
        "block Net(X [B, D]) -> Y [B/N_T, D] {\n"
        "    param W [D, D_ff/(N_G*N_T)], b [D_ff/N_T]\n"
        "    X -> •<=W -> ⊕<-BC(b) : H [B, D_ff/N_T] -> mean[D_ff] : m [B/N_T]\n"
        "      -> BC[b -> b, d=D] : Y\n}\n"
    )
    graph = type_project(project(tmp_path, text)).main
    named = dict(graph.names())
    shapes = {name: str(graph.types[value]) for name, value in named.items()}
    assert shapes["W"] == "[D, 4*D]"
    assert (shapes["H"], shapes["Y"]) == ("[B, 4*D]", "[B, D]")
    laid = {str(value.name): dict(axes) for value, axes in graph.layouts.items()}
    assert laid == {
        "W": {"N_G": -1, "N_T": -1},
        "b": {"N_T": -1},
        "H": {"N_T": -1},
        "m": {"N_T": -1},
        "Y": {"N_T": -2},
    }


def test_a_new_axis_that_is_cut_is_made_whole(tmp_path: Path) -> None:
    text = (
        "dim B, N_H = 4\nmesh N_T = 2\n"
        "block Net(X [B]) -> Y [B, N_H/N_T] {\n    X -> BC[b -> b, h=N_H/N_T] : Y\n}\n"
    )
    graph = type_project(project(tmp_path, text)).main
    assert str(graph.types[graph.outputs[0]]) == "[B, N_H]"
    assert graph.layouts == {graph.outputs[0]: {"N_T": -1}}


def test_an_output_is_what_its_block_promises(tmp_path: Path) -> None:
    text = "dim B, D = 8\nblock Net(X [B, D]) -> Y [B] {\n    X -> tanh : Y [B, D]\n}\n"
    with pytest.raises(
        xg.DiagnosticError, match=r"the label says \[B\], but the edge has \[B, D\]"
    ):
        type_project(project(tmp_path, text))


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "plan", "settings", "message"),
    [
        ("LM", "None", {}, "no plan is called None"),
        ("LM", "DP × X", {}, "no plan is called X"),
        ("LM", "DP x TP", {}, "a product is written `DP × TP` or `DP.TP`"),
        ("MLP", "DP", {}, "the plan DP places nothing in MLP"),
        ("LM", "TP", {"N_T": 0}, "N_T needs a positive integer, not 0"),
        ("LM", "TP", {"N_T": "two"}, "N_T needs a positive integer, not two"),
        ("LM", "TP", {"N_T": 3}, "D = 64 is not divisible by N_T = 3"),
        ("LM", "DP", {"N_D": 4}, "B = 6 is not divisible by N_D = 4"),
        ("LM", "TP", {"N_X": 3}, "no option or dim is called N_X"),
    ],
)
def test_plans_that_do_not_fit(
    block: str, plan: str, settings: dict[str, str | int], message: str
) -> None:
    with pytest.raises(xg.DiagnosticError, match=message):
        with_mesh(type_project(PLANS, block, {**SIZES, **settings}, plan))


def test_no_number_is_advised_that_leaves_nothing(tmp_path: Path) -> None:
    text = """
dim B = 2, D = 3
mesh N_T = 2
block Net(X [B, D]) -> Y [B, D - 2] {
    X -> slice[D](2, D) -> tanh : Y
}
plan TP of Net {
    Y [B, (D - 2)/N_T]
}
"""
    (found,) = check_choices(project(tmp_path, text))
    assert found.message == "D - 2 = 1 is not divisible by N_T = 2"
    assert found.help == ("N_T may be 1, or D 4",)  # at 2 the axis would have no positions


def test_a_mesh_axis_without_a_size(tmp_path: Path) -> None:
    text = NET.replace("N_T = 2", "N_T") + "plan TP of Net {\n    W [D, D_ff/N_T]\n}\n"
    net = project(tmp_path, text)
    with pytest.raises(xg.DiagnosticError, match="the mesh axis N_T has no number of ranks"):
        with_mesh(type_project(net, "Net", {}, "TP"))
    assert with_mesh(type_project(net, "Net", {"N_T": 2}, "TP")).mesh == {"N_T": 2}
