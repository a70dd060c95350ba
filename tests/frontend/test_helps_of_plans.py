"""Helps of plans that do not fit: what they say is written, and the program compiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from frontend.refused import refused

from xg.frontend.choices import check_choices
from xg.frontend.project import read_project

MESH = "dim B, S, D = 4\nmesh N_D = 2\n"
NET = """block Net(X [B, S, D]) -> Y [B, S, D] {
    X -> Cell over S : Y
}
plan DP of Net { X [B/N_D, S, D] }
"""
CELL = """block Linear(x [B, D]) -> y [B, D] {
    param W [D, D]
    x -> •<=W : y
}
block Cell(x [B, D]) -> y [B, D] {
    state h [B, D]
    x -> Linear -> ⊕<-h -> tanh : y
    next h = y
}
"""
MEAN = """block Cell(x [B, D]) -> y [B, D] {
    state h [B, D]
    x -> mean[B] : m
    h -> ⊕<-BC(m) : y
    next h = y
}
"""
MEANS = f"""{MESH}block Net(X [B, D]) -> Y [B, D] {{{{
    {{}}
}}}}
plan DP of Net {{{{ X [B/N_D, D] }}}}
"""
SUMMED = "and sum it by a line of the plan: [D] (ring cost 2(N_D-1)/N_D · D elements per rank)"

# A program, the help for it, and the edits that this help says.
CASES: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "a cell that calls a block with parameters": (
        MESH + CELL + NET,
        "pass the parameter to the loop by an arrow: it is then sent once for all rounds",
        [
            ("    param W [D, D]\n    x", "    x"),
            ("Linear(x [B, D])", "Linear(x [B, D], W [D, D])"),
            ("Cell(x [B, D])", "Cell(x [B, D], W [D, D])"),
            ("    x -> Linear", "    x, W -> Linear"),
            ("    X -> Cell", "    param W [D, D]\n    X, W -> Cell"),
        ],
    ),
    "a mean of the batch beside its rows": (
        MEANS.format("X -> mean[B] : m\n    X -> ⊕<-BC(m) : Y"),
        "sum m by a line of the plan: m [D] (ring cost 2(N_D-1)/N_D · D elements per rank)",
        [("[B/N_D, D] }", "[B/N_D, D]\n    m [D] }")],
    ),
    "a mean that is repeated at once": (
        MEANS.format("X -> mean[B] -> BC[B] : m\n    X -> ⊙<-m : Y"),
        f"name the edge before BC by a label, {SUMMED}",
        [("mean[B] ->", "mean[B] : a\n    a ->"), ("[B/N_D, D] }", "[B/N_D, D]\n    a [D] }")],
    ),
    "a mean that has no gradient": (
        MEANS.format("X -> mean[B] -> stop -> BC[B] : t\n    X -> ⊙<-t : Y"),
        f"name the edge before stop by a label, {SUMMED}",
        [("mean[B] ->", "mean[B] : a\n    a ->"), ("[B/N_D, D] }", "[B/N_D, D]\n    a [D] }")],
    ),
    "a loss against a mean": (
        MEANS.format("X -> mean[B] -> BC[B] : t\n    X, t -> MSE : Y").replace("Y [B, D]", "Y []"),
        f"name the edge before BC by a label, {SUMMED}",
        [("mean[B] ->", "mean[B] : a\n    a ->"), ("[B/N_D, D] }", "[B/N_D, D]\n    a [D] }")],
    ),
    "a cell that counts along the batch": (
        MESH + MEAN + NET,
        "do not cut the inputs of the loop over N_D: then nothing is sent",
        [("X [B/N_D, S, D]", "X [B, S, D]")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_help_leads_to_a_program_under_its_plan(case: str) -> None:
    text, help, edits = CASES[case]
    (found,) = refused(text)
    assert found.help == (help,)
    for written, instead in edits:
        assert text.count(written) == 1, written
        text = text.replace(written, instead)
    # a mesh axis that divides nothing any more is warned of
    assert [each for each in refused(text) if each.severity == "error"] == [], text


@pytest.mark.parametrize("taken", ["", 'use Twice from "ops.xg"\n'])
def test_a_plan_of_an_operator_is_refused(taken: str, tmp_path: Path) -> None:
    """One of the file, or taken from another."""
    define = "op Twice(x) = 2*x\n"
    (tmp_path / "ops.xg").write_text("dim B, D\n" + define)
    (tmp_path / "net.xg").write_text(
        f"{taken}{MESH}{'' if taken else define}"
        "block Net(X [B, S, D]) -> Y [B, S, D] {\n    X -> Twice : Y\n}\n"
        "plan DP of Twice { X [B/N_D, S, D] }\n"
    )
    (said,) = check_choices(read_project(tmp_path / "net.xg"))
    assert said.message == "no block is called Twice"
    assert said.help == ("Twice is an operator: name a block that uses it",)


@pytest.mark.parametrize("shape", ["[B, E/N_T]", "[B/N_D, E/N_T]"])
def test_ranks_are_proposed_that_can_share_all_that_they_cut(shape: str) -> None:
    """Of N_T = 4 cuts of 6 and 10, three divides the one and five the other; of 8 and 10, five."""
    text = (
        "dim B = 8, D = 6, E = 10\nmesh N_T = 4, N_D = 2\n"
        "block Net(X [B, D], Z [B, E]) -> Y [B, D], W [B, E] {\n"
        "    X -> tanh : Y\n    Z -> tanh : W\n}\n"
        f"plan TP of Net {{\n    X [B, D/N_T]\n    Z {shape}\n}}\n"
    )
    helps = [line for each in refused(text) for line in each.help]
    assert helps == ["N_T may be 1 or 2, or D 4 or 8", "N_T may be 1 or 2, or E 8 or 12"]
    (help,) = (line for each in refused(text.replace("D = 6", "D = 8")) for line in each.help)
    assert help.startswith("N_T may be 1 or 2, or E")
