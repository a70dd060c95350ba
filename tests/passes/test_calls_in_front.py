"""Calls in front of what they take are those behind arrows, and blocks may take nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from xg.cli import main

BLOCKS = """\
dim S = 3, D = 4
mesh N_D = 3

block Halves(x [S, D]; k = 2) -> a, b [S, D] {
    param w [D]
    x -> ⊙<-BC(w) -> scale(k) : a
    x -> tanh                 : b
}

block Queries() -> q [S, D] {
    param table [S, D]
    table -> scale(2) : q
}

block Noise() -> y [S, D] {
    bernoulli[S, D](0.5) : y
}

"""
IN_FRONT = f"""\
{BLOCKS}block Main(x, t [S, D]) -> loss [], m [S, D] {{
    Halves(x, k=3) as h : a, b
    h(b) : c, d
    Queries(S=S, D=D) as more -> ⊕<-c : e
    more() -> ⊙<-(Queries(S=S, D=D) -> tanh) -> ⊕<-e : f
    Noise(S=S, D=D) : m
    f -> ⊕<-d -> ⊙<-m -> ⊕<-a : g
    g, t -> MSE : loss
    highlight Queries, more
}}

plan DP of Main {{
    x, t [S/N_D, D]
}}
"""
BEHIND = f"""\
{BLOCKS}block Main(x, t [S, D]) -> loss [], m [S, D] {{
    x -> Halves(k=3) as h : a, b
    b -> h : c, d
    Queries(S=S, D=D) as more : q_1
    q_1 -> ⊕<-c : e
    more() : q_2
    Queries(S=S, D=D) : q_3
    q_3 -> tanh : q_4
    q_2 -> ⊙<-q_4 -> ⊕<-e : f
    Noise(S=S, D=D) : m
    f -> ⊕<-d -> ⊙<-m -> ⊕<-a : g
    g, t -> MSE : loss
}}
"""
COMMANDS = [
    "verify --against fd,torch,jax", "verify --kernels", "verify --plan DP", "show --as html",
    "show --pass overview --as dot", "cost --plan *", "explain -o page.html", "build -o out",
    "export -o main.pt2",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_them(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("front.xg").write_text(IN_FRONT, "utf-8")
    name, *rest = command.split()
    assert main([name, "front.xg", *rest]) == 0


def test_they_are_the_same_steps_as_behind_arrows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts: list[str] = []
    for number, text in enumerate((IN_FRONT, BEHIND)):
        path = tmp_path / f"{number}.xg"
        path.write_text(text, "utf-8")
        assert main(["verify", str(path)]) == 0
        texts.append(capsys.readouterr().out.replace(path.name, ""))
    assert texts[0] == texts[1]
