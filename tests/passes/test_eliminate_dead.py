"""Steps that no output needs are left out, with everything that only they needed."""

from __future__ import annotations

from pathlib import Path

import xg

LIBRARY = Path(__file__).parents[2] / "diagrams"


def params(**options: str) -> set[str]:
    program = xg.compile(LIBRARY / "models" / "transformer.xg", options=options)
    return {name for name in program.params if not name.startswith("layers.")}


def test_a_parameter_that_the_choice_does_not_use_is_absent() -> None:
    assert params() == {"E", "P", "gamma", "beta"}
    assert params(pos="rope") == {"E", "gamma", "beta"}
    assert params(pos="sinusoidal", norm="post") == {"E"}
    assert params(head="own") == {"E", "P", "W_lm", "gamma", "beta"}


def test_dead_steps_call_nothing(tmp_path: Path) -> None:
    file = tmp_path / "dead.xg"
    file.write_text(
        "dim B, D = 3\n"
        "block Unused(X [B, D]) -> Y [B, D] {\n    param W [D, D]\n    X -> •<=W : Y\n}\n"
        "block Main(X [B, D]) -> Y [B, D] {\n    X -> Unused : U\n    X -> tanh : Y\n}\n"
    )
    graphs = xg.compile(file).graphs
    assert [graph.block for graph in graphs.graphs.values()] == ["Main"]
    assert len(graphs.main.steps) == 1
