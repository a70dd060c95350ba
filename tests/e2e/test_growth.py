"""The cost of checking, drawing, emitting and counting grows no faster than the program."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from xg.driver import Program, compile_project
from xg.frontend.choices import check_choices
from xg.frontend.project import parse_project

AT_MOST = 6.0  # times as long for a program four times as large; 16 would be quadratic
HEAD = "dim B, D = 8\n"


def flat(count: int) -> str:
    """A block of one chain."""
    nodes = ("ReLU", "GELU", "⊕<-X", "S")
    steps = (f"-> {nodes[i % 4]} : H_{i} [B, D]" for i in range(count))
    return HEAD + _net("X " + "\n      ".join(steps))


def blocks(count: int) -> str:
    """Blocks, each called once."""
    text = (
        "block B_{0}(X [B, D]) -> Y [B, D] {{\n    param W [D, D]\n    X -> •<=W -> ⊕<-X : Y\n}}\n"
    )
    calls = "\n      ".join(f"-> B_{i}" for i in range(count))
    return HEAD + "".join(map(text.format, range(count))) + _net("X " + calls)


def calls(count: int) -> str:
    """One block, a recurrent cell, called again and again with its own result."""
    cell = (
        "block Cell(X, H [B, D]) -> N [B, D] {\n"
        "    param W [D, D], U [D, D], b [D] = zeros\n"
        "    X -> •<=W : Q [B, D]\n"
        "    H -> •<=U -> ⊕<-Q -> ⊕<-BC(b) -> sigmoid : G [B, D]\n"
        "    G -> ⊙<-H : N\n}\n"
    )
    rows = (
        f"X, {f'H_{i - 1}' if i else 'X'} -> Cell as c_{i} : H_{i} [B, D]" for i in range(count)
    )
    return HEAD + cell + _net("\n    ".join(rows) + f"\n    H_{count - 1}")


def _net(chain: str) -> str:
    return f"block Net(X [B, D]) -> Y [B, D] {{\n    {chain}\n      -> ReLU : Y\n}}\n"


def check(text: str) -> Callable[[], object]:
    project = parse_project(text.encode())
    return lambda: check_choices(project)


def compiled(do: Callable[[Program], object]) -> Callable[[str], Callable[[], object]]:
    def prepare(text: str) -> Callable[[], object]:
        program = compile_project(parse_project(text.encode()))
        return lambda: do(program)

    return prepare


def seconds(do: Callable[[], object]) -> float:
    gc.collect()
    began = time.process_time()
    do()
    return time.process_time() - began


@pytest.mark.parametrize(
    ("text", "count", "prepare"),
    [
        pytest.param(flat, 900, check, id="check a chain"),
        pytest.param(blocks, 200, check, id="check blocks"),
        pytest.param(calls, 250, check, id="check calls"),
        pytest.param(flat, 200, compiled(lambda p: p.source("numpy")), id="emit a chain"),
        pytest.param(calls, 64, compiled(lambda p: p.source("torch")), id="emit calls"),
        pytest.param(flat, 250, compiled(lambda p: p.dot("backward")), id="draw a chain"),
        pytest.param(flat, 100, compiled(lambda p: p.cost()), id="count a chain"),
    ],
)
def test_four_times_the_program(
    text: Callable[[int], str], count: int, prepare: Callable[[str], Callable[[], object]]
) -> None:
    small, large = prepare(text(count)), prepare(text(4 * count))
    small()  # imports what it needs
    least = min(seconds(small), seconds(small))
    ratio = seconds(large) / least
    if ratio > AT_MOST:  # something else may have been at work
        ratio = min(ratio, seconds(large) / min(least, seconds(small)))
    assert ratio <= AT_MOST, f"{ratio:.1f} times as long"
