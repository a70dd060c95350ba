"""The largest array of one step, also one that never leaves its operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

import xg
from xg.cost.memory import Largest
from xg.cost.memory import _largest as largest_of  # pyright: ignore[reportPrivateUsage]
from xg.ir.dim import symbol

SCAN = """\
op Scan(x [.., D], h [.., N]; w [D, N]) = sum[N](exp(x * w) * h)
dim B, S, D = 6, N = 5, K = 7
block Cell(x [B, S, D], h [B, S, N]) -> y [B, S, D] {
    param w [D, N]
    x, h -> Scan(w) : y
}
block Net(x [B, S, D], h [B, S, N]) -> z [B, S, K] {
    param P [D, K]
    x, h -> Cell as cell : y
    y -> •<=P : z
}
"""


def found(folder: Path, text: str, **sizes: int) -> Largest:
    path = folder / "scan.xg"
    path.write_text(text, encoding="utf-8")
    one = xg.compile(path, sizes=sizes).cost().largest
    assert one
    return one


def test_an_array_inside_an_operator_is_named(tmp_path: Path) -> None:
    one = found(tmp_path, SCAN, B=2, S=3)
    assert (one.block, one.name, one.line, one.inner) == ("Cell", "Scan : y", 5, True)
    assert one.size.evaluate({"B": 2, "S": 3, "D": 6, "N": 5}) == 4 * 2 * 3 * 6 * 5


def test_sizes_of_a_call_are_those_of_the_entry(tmp_path: Path) -> None:
    text = SCAN.replace("Cell as cell", "Cell(N=2*K) as cell").replace(
        "h [B, S, N]) -> z", "h [B, S, 2*K]) -> z"
    )
    assert set(found(tmp_path, text, B=2, S=3).size.symbols()) <= {"B", "S", "D", "K"}


def test_another_step_may_be_larger(tmp_path: Path) -> None:
    one = found(tmp_path, SCAN, B=2, S=3, K=1_000)
    assert (one.block, one.name, one.line) == ("Net", "• : z", 10)
    assert not one.inner


def test_the_backward_pass_counts_too(tmp_path: Path) -> None:
    head = "dim B, D\nblock F(x [B, D]) -> y [B, D] {"
    text = f"{head}\n    param w [D, D]\n    x -> •<=w : y\n}}\n"
    one = found(tmp_path, text, B=1, D=9)
    assert one.direction == "backward"
    assert one.size.evaluate({"D": 9}) == 4 * 81


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_command_shows_it(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from xg.cli import main

    path = tmp_path / "scan.xg"
    path.write_text(SCAN, encoding="utf-8")
    words = ["cost", str(path), "--set", "B=2048", "--set", "S=100_000".replace("_", "")]
    assert main([*words, "--json" if form == "json" else "--full"]) == 0
    out = capsys.readouterr().out
    size = 4 * 2048 * 100_000 * 6 * 5
    if form == "json":
        data = cast("dict[str, Any]", json.loads(out)["largest_array"])
        assert (data["bytes"]["number"], data["inside"]) == (size, True)
    else:
        assert f"{size:,}" in out
        assert "an array inside Scan : y, Cell, line 5" in out


def test_sums_that_are_nowhere_above_another_go() -> None:
    small, large = symbol("D"), symbol("D") * 2
    assert largest_of([small, large]) == largest_of([large, small]) == (large,)
    other = symbol("B") + symbol("D")
    assert largest_of([small, other, large]) == (other, large)
