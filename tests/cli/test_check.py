"""`xg check`: every block, every choice."""

from pathlib import Path

from cli.conftest import Xg


def test_every_file_is_checked(xg: Xg) -> None:
    said = xg("check", "wrong.xg", "tiny.xg", "nothing.xg")
    assert said.out == "wrong.xg: 1 mistake\ntiny.xg: ok\nnothing.xg: 1 mistake\n"
    assert said.code == 1


def test_a_mistake_in_a_choice_that_is_not_the_default(xg: Xg, folder: Path) -> None:
    (folder / "choice.xg").write_text(
        "dim B, D\noption act = ReLU | gone\n"
        "block Net(X [B, D]) -> Y [B, D] {\n    X -> act : Y\n}\n"
    )
    assert "gone" in xg("check", "choice.xg").err
    assert xg("check", "choice.xg", "--set", "act=ReLU").code == 0


def test_options_of_a_call_are_choices_too(xg: Xg, folder: Path) -> None:
    (folder / "own.xg").write_text(
        "dim B, D, E\n"
        "block Net(X [B, D]; how = plain | odd) -> Y [B, D] {\n"
        "    X -> T if how = odd -> ReLU : Y\n}\n"
    )
    said = xg("check", "own.xg")
    assert said.code == 1
    assert "T cannot make [B, D]" in said.err
    assert xg("check", "own.xg", "--set", "how=plain").code == 0


def test_all_blocks_are_told_in_the_order_of_the_file(xg: Xg, folder: Path) -> None:
    bad = "block {}(X [B, D]) -> Y [B, D] {{\n    X -> gone : Y\n}}\n"
    text = "dim B, D\n" + "".join(bad.format(name) for name in ("A", "B_2", "C"))
    (folder / "three.xg").write_text(text)
    lines = [line for line in xg("check", "three.xg").err.splitlines() if "three.xg:" in line]
    assert [int(line.rsplit(":", 2)[1]) for line in lines] == [3, 6, 9]


def test_greek_and_english_names_are_one(xg: Xg, folder: Path) -> None:
    (folder / "greek.xg").write_text(
        "dim B, λ = 4\nblock Ω(X [B, λ]) -> Y [B, λ] {\n    X -> ReLU : Y\n}\n", encoding="utf-8"
    )
    assert xg("check", "greek.xg", "--block", "Omega", "--set", "lambda=3").code == 0
    assert xg("check", "greek.xg", "--block", "Ω", "--set", "λ=3").code == 0


def test_a_file_of_operators_alone_is_checked(xg: Xg, folder: Path) -> None:
    (folder / "ops.xg").write_text("op Twice(x) = 2*x\nop Odd(x) = y\n")
    said = xg("check", "ops.xg")
    assert said.code == 1
    assert "Odd has no operand or part y" in said.err


def test_an_unknown_block_is_told(xg: Xg) -> None:
    assert "tiny.xg has no block Nett" in xg("check", "tiny.xg", "--block", "Nett").err


def test_plans_are_read_and_not_trusted(xg: Xg, folder: Path) -> None:
    text = (folder / "tiny.xg").read_text(encoding="utf-8")
    plan = "\nmesh N_T = 2\nplan TP of Net {\n    W [D, D_ff/N_T]\n}\n"
    (folder / "plan.xg").write_text(text + plan, encoding="utf-8")
    said = xg("check", "plan.xg")
    assert (said.code, said.out) == (0, "plan.xg: ok\n")
    assert "warning: the plan TP cannot be compiled by this edition" in said.err
