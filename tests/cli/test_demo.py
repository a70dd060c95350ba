"""`xg demo`, on one diagram and for a few steps."""

import re
from pathlib import Path

from cli.conftest import Xg

RANKS = """\
dim B, D = 4
mesh N_T = 2

block F_i(X [B, D/N_T]) -> Y [B, D] {
    param W [D/N_T, D]

    X -> •<=W -> AR(N_T) : Y
}
"""


def test_the_demo_builds_verifies_and_trains(xg: Xg, folder: Path) -> None:
    said = xg("demo", "mlp", "--steps", 12)
    assert said.code == 0
    row = next(line.split() for line in said.out.splitlines() if line.startswith("mlp "))
    assert row[1:3] == ["14", "7"]  # files, gradients
    assert row[-1] == "proven"
    assert "beside them 3 modules, in NumPy, JAX and torch: mlp_numpy.py" in said.out
    *_, where, page, text, live, own = said.out.splitlines()
    assert re.fullmatch(r"pictures and code: out/demo \(\d+ seconds\)", where)
    assert page.endswith(": out/demo/mlp.html, and out/demo/training/loss.svg")
    assert [each.partition("xg ")[2] for each in (text, live, own)] == [
        "generate out/demo/training",
        "serve mlp --open",
        "new my_model",
    ]
    assert xg("generate", "out/demo/training", "--tokens", 2).code == 0
    assert (folder / "out" / "demo" / "mlp.html").exists()
    assert (folder / "out" / "demo" / "mlp_torch.py").exists()
    assert "loss 5." in said.out
    assert (folder / "out" / "demo" / "mlp.forward.svg").exists()
    assert (folder / "out" / "demo" / "training" / "loss.svg").exists()


def test_a_diagram_of_ranks_has_the_modules_that_backends_write(xg: Xg, folder: Path) -> None:
    """Not every backend writes modules for ranks; the demo leaves those out."""
    (folder / "ranks.xg").write_text(RANKS, encoding="utf-8")
    said = xg("demo", "ranks", "--steps", 12)
    assert said.code == 0, said.err
    modules = {path.stem for path in (folder / "out" / "demo").glob("*.py")}
    everywhere = {name.removesuffix("_numpy") for name in modules if name.endswith("_numpy")}
    assert everywhere - {name.removesuffix("_jax") for name in modules}
