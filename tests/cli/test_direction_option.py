"""`xg build --direction right`."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import Xg
from library import shipped


def test_every_picture_is_of_that_direction(xg: Xg, folder: Path) -> None:
    kinds = ("svg", "pdf", "png", "tex", "dot")
    for direction in ("down", "right"):
        words = ("--direction", direction, "--only", ",".join(kinds))
        assert xg("build", "tiny.xg", "-o", direction, *words).code == 0
    for kind in kinds:
        one, other = (folder / each / f"tiny_net.forward.{kind}" for each in ("down", "right"))
        assert one.read_bytes() != other.read_bytes(), kind


def test_ranks_side_by_side_run_from_the_top_down(xg: Xg, folder: Path) -> None:
    words = (str(shipped("mlp")), "--plan", "TP", "--direction", "right")
    refused = xg("build", *words, "--pass", "overview", "-o", "one.svg")
    assert refused.code == 1
    assert refused.err == (
        "xg build: ranks side by side run from the top down in Multi-Layer Perceptron: "
        "--direction down\n"
    )
    assert not (folder / "one.svg").exists()
    made = xg("build", *words, "--only", "dot", "-o", "all")
    assert made.code == 0
    assert "mlp_tp.overview: ranks side by side run from the top down" in made.err
    text = {
        view: (folder / f"all/mlp_tp.{view}.dot").read_text() for view in ("forward", "overview")
    }
    assert "rankdir=LR" in text["forward"]
    assert "rankdir=TB" in text["overview"]
