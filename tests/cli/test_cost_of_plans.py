"""`xg cost --plan`: what ranks send and hold, one plan or all of them; tables of machines."""

import json
from pathlib import Path
from typing import Any

from cli.conftest import Xg

NET = """\
dim B, D = 8, N_L = 2
mesh N_D = 2, N_T = 4

block MLP(X [B, D]) -> Y [B, D] {
    param W [D, 4*D], V [4*D, D]
    X -> •<=W -> ReLU -> •<=V : Y
}

block Net(X [B, D], t [B, D]) -> loss [] {
    X -> N_L × MLP as layers -> MSE<-t : loss
}

plan TP of MLP {
    W [D, 4*D/N_T]
    V [4*D/N_T, D]
}

plan DP of Net {
    X, t [B/N_D, D]
}

plan Rows of MLP {
    Y [B/N_T, D]
    V [D, D]
}
"""
MINE = "[mine]\nflops = { float32 = 1e6 }\nlink = 1e6\n"
SIZES = ("--set", "B=6")


def told(xg: Xg, *words: str) -> dict[str, Any]:
    return json.loads(xg("cost", "net.xg", *words, "--json").out)


def written(folder: Path) -> None:
    text = NET[: NET.index("plan Rows")]
    (folder / "net.xg").write_text(text, encoding="utf-8")
    (folder / "mine.toml").write_text(MINE, encoding="utf-8")


def test_numbers_that_a_person_counts(xg: Xg, folder: Path) -> None:
    """Per layer one sum of [6, 8] in each pass over four ranks: 2 * 3/4 * 48 = 72 elements."""
    written(folder)
    found = told(xg, "--plan", "TP", *SIZES)
    assert found["total"]["communication"]["number"] == 4 * 72
    assert found["total"]["communication_naive"]["number"] == 4 * 2 * 3 * 48
    assert found["total"]["communication_bytes"]["number"] == 4 * 72 * 4
    (layer,) = found["layers"]
    assert layer["communication"] == {"formula": "2*(N_T - 1)/N_T*2*B*D", "number": 144}
    assert found["memory_bytes"]["parameters"]["number"] == 2 * 2 * 8 * 32 // 4 * 4
    assert found["memory_bytes"]["optimizer"]["number"] == 2 * 2 * 2 * 8 * 32 // 4 * 4
    assert [each["of"] for each in found["collectives"]] == ["Y", "dX"]


def test_the_totals_of_a_rank_say_what_it_sends(xg: Xg, folder: Path) -> None:
    written(folder)
    said = xg("cost", "net.xg", "--plan", "TP", *SIZES).out.partition("\n\n")[0]
    assert "one step of one rank" in said.splitlines()[0]
    assert said.splitlines()[-1].split(maxsplit=3)[:3] == ["sent", "elements", "288"]


def test_all_plans_side_by_side(xg: Xg, folder: Path) -> None:
    written(folder)
    said = xg("cost", "net.xg", "--plan", "*", *SIZES).out
    table = said.partition("\n\n")[0]
    rows = {line.split()[0]: line.split() for line in table.splitlines()}
    assert rows["TP"][1:5] == ["N_T", "=", "4", "256"]
    assert rows["TP"][7:10] == ["1,152", "288", "1,152"]
    found = told(xg, "--plan", "*", *SIZES)["plans"]
    assert [each["plan"] for each in found] == [None, "TP", "DP"]
    assert [each["total"]["communication"]["number"] for each in found] == [0, 288, 1025]


def test_a_plan_that_is_refused_says_why(xg: Xg, folder: Path) -> None:
    (folder / "net.xg").write_text(NET, encoding="utf-8")
    said = xg("cost", "net.xg", "--plan", "*", *SIZES)
    assert said.code == 0
    assert "Rows is refused: V is [4*D, D], but the plan says [D, D]" in said.out
    last = told(xg, "--plan", "*", *SIZES)["plans"][-1]
    assert (last["plan"], list(last)) == ("Rows", ["plan", "refused"])


def test_a_file_without_plans_has_none_to_compare(xg: Xg) -> None:
    said = xg("cost", "tiny.xg", "--plan", "*")
    assert (said.code, said.err) == (
        1,
        "xg cost: tiny.xg has no plan, so there is none to compare\n",
    )


def test_machines_of_a_file(xg: Xg, folder: Path) -> None:
    """288 elements of 4 bytes at 1e6 bytes/s."""
    written(folder)
    words = ("--plan", "TP", *SIZES, "--hardware", "mine.toml")
    (estimate,) = told(xg, *words)["estimates"]
    assert (estimate["machine"], estimate["sending_seconds"]) == ("mine", 288 * 4 / 1e6)
    assert "1.15 ms" in xg("cost", "net.xg", *words).out


def test_tables_that_cannot_be_read(xg: Xg, folder: Path) -> None:
    written(folder)
    (folder / "broken.toml").write_text("[a\n", encoding="utf-8")
    (folder / "odd.toml").write_text("[a]\nflops = { float32 = 1 }\nlink = -1\n", encoding="utf-8")
    for name, code, words in (
        ("none.toml", 5, "xg: cannot read none.toml"),
        ("broken.toml", 1, "xg: broken.toml is not TOML"),
        ("odd.toml", 1, "xg: odd.toml: [a] link = -1 is no positive number"),
    ):
        said = xg("cost", "net.xg", "--hardware", name)
        assert said.code == code
        assert said.err.startswith(words)
