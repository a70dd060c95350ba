"""`xg demo`, and the gallery on a few diagrams and for a few steps."""

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


def test_the_demo_shows_the_whole_promise(xg: Xg, folder: Path) -> None:
    said = xg("demo")
    assert said.code == 0, said.err
    text = (folder / "out/demo/guess.xg").read_text(encoding="utf-8")
    assert all(line in said.out for line in text.splitlines())
    assert xg("fmt", "--check", "out/demo/guess.xg").code == 0
    assert xg("check", "--strict", "out/demo/guess.xg").code == 0
    shown = re.findall(r"out/demo/\S+", said.out)
    assert len(shown) == 7  # the text twice, three figures, a module, a page
    assert [name for name in shown if not (folder / name).is_file()] == []
    module = (folder / "out/demo/guess_numpy.py").read_text(encoding="utf-8")
    code = said.out.partition("Its code")[2].partition("Its gradients")[0].splitlines()[1:]
    assert len(code) > 10
    assert all(line.removeprefix("  ") in module for line in code)
    assert re.search(r"\bMLP\.W_up .* ok\n", said.out)
    assert re.search(r"forward +all_reduce +N_T .* yes\n", said.out)
    assert re.search(r"backward +all_reduce +N_T .* yes\n", said.out)
    first, last = re.findall(r"loss  (5\.\d+) \S+ (\d\.\d+)\n", said.out)[0]
    assert float(last) < 3.2 < float(first)
    ways = [line.split() for line in said.out.splitlines()[-3:]]
    assert [words[:2] for words in ways] == [["xg", "serve"], ["xg", "new"], ["xg", "demo"]]


def test_a_changed_program_of_the_demo_is_kept(xg: Xg, folder: Path) -> None:
    path = folder / "out" / "demo" / "guess.xg"
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n")
    said = xg("demo")
    assert (said.code, "choose another --out" in said.err) == (5, True)
    assert path.read_text() == "# mine\n"


def test_several_diagrams_are_built_on_several_cores(xg: Xg, folder: Path) -> None:
    said = xg("demo", "mlp", "lstm", "--steps", 4, "-o", "gallery")
    rows = [line.split() for line in said.out.splitlines() if line.endswith("proven")]
    assert [row[0] for row in rows] == ["mlp", "lstm"]
    assert (folder / "gallery" / "lstm.forward.svg").exists()


def test_the_demo_builds_verifies_and_trains(xg: Xg, folder: Path) -> None:
    said = xg("demo", "mlp", "--steps", 12)
    assert said.code == 0
    row = next(line.split() for line in said.out.splitlines() if line.startswith("mlp "))
    assert row[1:3] == ["14", "7"]  # files, gradients
    assert row[-1] == "proven"
    modules = "mlp_numpy.py, mlp_jax.py, mlp_torch.py"
    assert f"and 3 modules, in NumPy, JAX and torch: {modules}\n" in said.out
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
