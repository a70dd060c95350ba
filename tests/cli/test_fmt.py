"""`xg fmt`."""

from pathlib import Path

from cli.conftest import TINY, Xg

LOOSE = "dim B,D\nblock A(X [B,D])->Y [B,D] {\nX->@<=(X->T) -> ReLU:Y # why\n}\n"


def test_files_are_laid_out_once(xg: Xg, folder: Path) -> None:
    (folder / "loose.xg").write_text(LOOSE)
    assert xg("fmt", "loose.xg", "--check").code == 1
    assert (folder / "loose.xg").read_text() == LOOSE
    assert xg("fmt", "loose.xg").out == "laid out loose.xg\n"
    text = (folder / "loose.xg").read_text(encoding="utf-8")
    assert "•" in text
    assert "# why" in text
    assert xg("fmt", "loose.xg").out == ""
    assert xg("fmt", "loose.xg", "--check").code == 0


def test_standard_input_goes_to_standard_output(xg: Xg) -> None:
    assert xg("fmt", "-", stdin=TINY.encode()).out == TINY
    assert xg("fmt", "-", "--check", stdin=LOOSE.encode()).code == 1


def test_a_file_with_mistakes_is_left_alone(xg: Xg, folder: Path) -> None:
    (folder / "broken.xg").write_text("block (")
    (folder / "loose.xg").write_text(LOOSE)
    said = xg("fmt", "broken.xg", "loose.xg")
    assert said.code == 1
    assert (folder / "broken.xg").read_text() == "block ("
    assert said.out == "laid out loose.xg\n"  # and the next one is not forgotten
