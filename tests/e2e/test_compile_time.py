"""Compile time is linear in the program, and a repetition compiles as fast as one round."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

from bench.programs import chosen, deep, flat, placed
from tier import THOROUGH

import xg
from xg.frontend.choices import checked
from xg.frontend.project import read_project

FEW, MANY = (400, 1_600) if THOROUGH else (200, 800)
ROUNDS = 3


def seconds(action: Callable[[], object]) -> float:
    """Processor time."""
    start = process_time()
    action()
    return process_time() - start


def times_as_long(many: Callable[[], object], few: Callable[[], object], limit: float) -> float:
    """Measure again what takes too long: other work on the machine may have been the reason.

    Of each the fastest round counts. Modules that both import are to be imported before.
    """
    long = short = float("inf")
    for _ in range(ROUNDS):
        short, long = min(short, seconds(few)), min(long, seconds(many))
        if long / short < limit:
            break
    return long / short


def compiling(folder: Path, name: str, text: str) -> Callable[[], str]:
    file = folder / f"{name}.xg"
    file.write_text(text, encoding="utf-8")
    return lambda: xg.compile(file).source("numpy")


def test_a_longer_file_takes_proportionally_longer(tmp_path: Path) -> None:
    compiling(tmp_path, "first", flat(20))()
    few, many = (compiling(tmp_path, f"flat_{count}", flat(count)) for count in (FEW, MANY))
    limit = 1.6 * MANY / FEW
    assert times_as_long(many, few, limit) < limit


def test_a_plan_for_a_longer_file_takes_proportionally_longer(tmp_path: Path) -> None:
    def placing(count: int) -> Callable[[], object]:
        file = tmp_path / f"placed_{count}.xg"
        file.write_text(placed(count), encoding="utf-8")
        return lambda: xg.compile(file, plan="TP").graphs

    placing(2)()
    limit = 1.6 * MANY / FEW
    assert times_as_long(placing(MANY // 8), placing(FEW // 8), limit) < limit


def test_a_repetition_is_compiled_once(tmp_path: Path) -> None:
    one, thousand = (compiling(tmp_path, f"deep_{count}", deep(count)) for count in (1, 1_000))
    told = one().replace("deep_1.xg", "deep_1000.xg").replace("N_L = 1\n", "N_L = 1000\n")
    assert thousand() == told
    assert times_as_long(thousand, one, 1.6) < 1.6


def nested(depth: int) -> str:
    """Blocks that each call the one before."""
    blocks = ["dim B\nblock F_0(X [B]) -> Y [B] {\n    param w [B]\n    X -> ⊙<-w : Y\n}\n"]
    blocks += [
        f"block F_{i}(X [B]) -> Y [B] {{\n    X -> F_{i - 1} as f : Y\n}}\n"
        for i in range(1, depth)
    ]
    return "".join(blocks)


def test_blocks_may_call_each_other_as_deep_as_they_like(tmp_path: Path) -> None:
    """Deeper than functions of Python may, and in time that is proportional to the depth."""
    deepest = sys.getrecursionlimit()
    few = compiling(tmp_path, "less_deep", nested(deepest // 4))

    def many() -> None:
        (tmp_path / "deep.xg").write_text(nested(deepest), encoding="utf-8")
        program = xg.compile(tmp_path / "deep.xg")
        (path,) = program.params
        assert path == "f." * (deepest - 1) + "w"
        assert "def f_0(" in program.source("numpy")

    assert times_as_long(many, few, 6.4) < 6.4


def test_a_plan_is_placed_once_for_all_choices_of_options(tmp_path: Path) -> None:
    """A block that a choice does not change is not placed again: products of plans neither."""

    def checking(words: int) -> Callable[[], object]:
        file = tmp_path / f"choices_{words}.xg"
        file.write_text(chosen(words), encoding="utf-8")
        project = read_project(file)
        return lambda: checked(project)

    checking(1)()
    assert times_as_long(checking(5), checking(1), 2.5) < 2.5
