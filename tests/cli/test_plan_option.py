"""`--plan` and sizes of meshes on the commands that compile."""

from pathlib import Path

import numpy as np
import pytest
from cli.conftest import TINY, Xg

PLANS = """
mesh N_D = 2, N_T = 2
plan TP of Net {
    W [D, D_ff/N_T]
    V [D_ff/N_T, D]
}
block Part(x [B, D]) -> y [B, D] {
    x -> ReLU : y
}
plan DP of Part {
    x [B/N_D, D]
}
"""


@pytest.fixture
def plans(folder: Path) -> Path:
    (folder / "plans.xg").write_text(TINY + PLANS, encoding="utf-8")
    np.savez(folder / "in.npz", X=np.ones((4, 4)), t=np.ones(4))
    return folder


RUN = ["run", "plans.xg", "--block", "Net", "--inputs", "in.npz", "-o", "out.npz"]
COMMANDS = [
    ["show", "plans.xg", "--block", "Net"],
    ["cost", "plans.xg", "--block", "Net"],
    ["build", "plans.xg", "--block", "Net", "--only", "numpy"],
    RUN,
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.usefixtures("plans")
def test_what_is_wrong_with_a_plan_is_told(xg: Xg, command: list[str]) -> None:
    for plan, settings, message in (
        ("TT", (), "no plan is called TT"),
        ("TP ×", (), "no plan is called TP ×"),
        ("", (), "no plan is called"),
        ("DP", (), "the plan DP places nothing in Net"),
        ("TP", ("--set", "N_T=3"), "D_ff = 8 is not divisible by N_T = 3"),
        ("TP", ("--set", "N_T=0"), "N_T needs a positive integer, not 0"),
    ):
        said = xg(*command, "--plan", plan, *settings)
        assert (said.code, message in said.err) == (1, True), said.err


def test_a_block_of_another_file(xg: Xg, plans: Path) -> None:
    (plans / "mine.xg").write_text('use Net from "plans.xg"\n', encoding="utf-8")
    shown = xg("show", "mine.xg", "--block", "Net", "--as", "numpy")
    assert shown.out.startswith('"""A tiny net: ')
    assert xg("show", "mine.xg", "--as", "numpy").out == shown.out  # it takes no other


@pytest.mark.usefixtures("plans")
def test_what_a_plan_makes_bears_its_name(xg: Xg) -> None:
    said = xg("build", "plans.xg", "--block", "Net", "--plan", "TP", "--only", "dot,numpy,html")
    assert said.code == 0, said.err
    names = {path.name for path in Path("out").iterdir()}
    assert names >= {f"plans_net_tp.{view}.dot" for view in ("forward", "backward", "overview")}
    assert names >= {"plans_net_tp_numpy.py", "plans_net_tp.html"}


@pytest.mark.usefixtures("plans")
def test_a_figure_of_ranks_is_shown(xg: Xg) -> None:
    show = ("show", "plans.xg", "--block", "Net", "--plan", "TP")
    said = xg(*show, "--as", "dot", "--pass", "overview")
    assert said.code == 0
    assert "GPU 1" in said.out
    assert 'id="ranks"' in xg(*show, "--as", "html").out
