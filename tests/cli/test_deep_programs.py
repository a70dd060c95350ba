"""Programs that are deep, not large: hundreds of calls inside calls, hundreds of layout steps."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from xg.cli import main

COUNT = 520


@pytest.fixture(autouse=True)
def pythons_own_limit() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(limit)


def test_a_value_is_moved_behind_hundreds_of_layout_steps(tmp_path: Path) -> None:
    steps = "".join(f"    c_{i} -> T : c_{i + 1}\n" for i in range(COUNT))
    file = tmp_path / "deep.xg"
    file.write_text(
        "dim B, D\nmesh N_T\nblock F(X [B, D], c_0 [B, D]) -> Y [B, D] {\n    param W [D, D]\n"
        f"    X -> •<=W : A\n{steps}    A -> ⊙<-c_{COUNT} : Y\n}}\n"
        "plan P of F {\n    W [D, D/N_T]\n}\n",
        encoding="utf-8",
    )
    assert main(["check", str(file), "--plan", "P"]) == 0


def test_calls_inside_hundreds_of_calls_are_proven(tmp_path: Path) -> None:
    blocks = "".join(
        f"block F{i + 1}(x [B]) -> y [B] {{\n    x -> F{i} : y\n}}\n" for i in range(COUNT)
    )
    file = tmp_path / "nested.xg"
    file.write_text(
        f"dim B = 2\nblock F0(x [B]) -> y [B] {{\n    x -> tanh : y\n}}\n{blocks}",
        encoding="utf-8",
    )
    assert main(["verify", str(file)]) == 0
