"""`xg lock`: what changes nothing, what is named, and what fails."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from xg.cli import main
from xg.frontend.project import read_project
from xg_runtime.errors import FileError
from xg_testing.lockfile import NAME, lock_project, lock_text, parse_edge, read_lock
from xg_testing.proofs import accept, check_file

TEXT = """\
dim B, D, D_h
mesh N = 2

op Twice(x [B, D]) = x + x

block F(X [B, D]) -> Y [B, D], loss [] {
    param W [D, D_h], V [D_h, D] = normal(0.5)
    X -> •<=W -> ReLU : H [B, D_h]
      -> •<=V : Z [B, D]
      -> Twice : T [B, D]
      -> ⊕<-X : Y
    Y -> mean[B, D] : loss
}

plan TP of F {
    W [D, D_h/N]
    V [D_h/N, D]
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A diagram with its lock."""
    path = tmp_path / "f.xg"
    path.write_text(TEXT, "utf-8")
    assert [changed for *_, changed in accept([path])] == [True]
    return path


def after(file: Path, old: str, new: str) -> Sequence[str]:
    """Change the text, and return what is said to be different."""
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")
    return [line for each in check_file(file) for line in (*each.meaning, *each.notes)]


def test_a_lock_is_read_as_it_was_written(file: Path) -> None:
    lock = read_lock(file.with_name(NAME))
    assert lock
    assert lock_text(lock) == file.with_name(NAME).read_text("utf-8")
    assert [changed for *_, changed in accept([file])] == [False]
    (block,) = lock_project(read_project(file))
    assert lock.blocks["f.xg", "F"] == block
    for edge in block.edges:
        assert parse_edge(str(edge)) == edge


def test_comments_layout_and_blocks_above_change_nothing(file: Path) -> None:
    above = "# a comment\n\nblock G(A [D]) -> Z [D] {\n    A -> tanh : Z\n}\n\nmesh"
    assert after(file, "mesh", above) == ["is not in the lock"]
    list(accept([file]))
    assert after(file, "      -> •<=V : Z [B, D]", "-> •<=V   : Z   [B, D]  # comment") == []


def test_a_renamed_file_keeps_its_record(file: Path) -> None:
    renamed = file.rename(file.with_name("g.xg"))
    assert all(each.passed for each in check_file(renamed))


def test_a_renamed_edge_is_named_and_changes_no_number(file: Path) -> None:
    assert after(file, ": H [B", ": Hidden [B") == [
        "H is now Hidden: renamed, nothing else changes"
    ]


def test_a_renamed_parameter_is_named_with_what_reads_it(file: Path) -> None:
    found = after(file, "V", "V_2")
    assert found[0] == "V is now V_2: renamed, nothing else changes"


def test_another_operator_is_said_in_words(file: Path) -> None:
    found = after(file, "ReLU", "SiLU")
    assert found[0] == "H is now computed by SiLU, before by ReLU"
    assert found[1].startswith("numbers differ: Y, loss")


def test_another_formula_of_the_same_operator_is_found(file: Path) -> None:
    found = after(file, "x + x", "x + x*x")
    assert found[0] == "T Twice computes something else"


def test_an_unnamed_step_that_comes_renumbers_nothing(file: Path) -> None:
    found = after(file, "X -> •<=W", "X -> tanh -> •<=W")
    assert [line for line in found if not line.startswith(("numbers", "plan"))] == [
        "tanh_1 is new: tanh(X) [B, D]",
        "•_1 from tanh_1 and W, was X and W",
    ]


def test_another_start_of_a_parameter_is_named(file: Path) -> None:
    assert after(file, "normal(0.5)", "normal(0.25)") == ["param V start 0.25, was 0.5"]


def test_a_plan_that_sends_less_is_named_with_the_edge(file: Path) -> None:
    found = after(file, "    W [D, D_h/N]\n    V [D_h/N, D]\n", "    X [B/N, D]\n")
    assert any(line.startswith("plan TP no longer sends: forward AR over N") for line in found)


def test_another_interface_is_said(file: Path) -> None:
    found = after(file, "-> Y [B, D], loss []", "-> loss [], Y [B, D]")
    assert found[0] == "returns loss, Y, was Y, loss"


def test_a_block_that_is_gone_is_said(file: Path) -> None:
    file.write_text("dim D\nblock G(A [D]) -> Z [D] {\n    A -> tanh : Z\n}\n", "utf-8")
    said = {each.block: each.meaning for each in check_file(file)}
    assert said == {"G": ("is not in the lock",), "F": ("is gone from the file",)}


def test_a_changed_number_is_found_without_a_changed_program(file: Path) -> None:
    lock = file.with_name(NAME)
    text = lock.read_text("utf-8")
    start = text.index("loss = [")
    digit = text[start + 8 : start + 14]
    lock.write_text(text.replace(f"loss = [{digit}", f"loss = [{float(digit) + 1e-3}"), "utf-8")
    assert [each.meaning for each in check_file(file)] == [("numbers differ: loss",)]


def test_a_damaged_lock_is_an_error_with_a_way_out(file: Path) -> None:
    file.with_name(NAME).write_text("format = 1\n<<<<<<< HEAD\n", "utf-8")
    with pytest.raises(FileError, match=r"damaged.*xg lock"):
        list(check_file(file))


def test_without_a_lock_the_command_to_write_one_is_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.with_name(NAME).unlink()
    assert main(["lock", "--check", str(file)]) == 5
    said = capsys.readouterr().err
    assert f"there is no xg.lock beside {file}: `xg lock {file}` writes one" in said


def test_the_command_reports_and_accepts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "--check", str(file)]) == 0
    after(file, "ReLU", "SiLU")
    assert main(["lock", "--check", str(file), "--diff"]) == 1
    said = capsys.readouterr().out
    assert "H is now computed by SiLU, before by ReLU" in said
    assert "+H [B, D_h] = SiLU(%•_1)" in said
    assert f"1 block CHANGED; to accept: xg lock {file}" in said
    assert main(["lock", str(file)]) == 0
    assert main(["lock", "--check", str(file)]) == 0
