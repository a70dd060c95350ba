"""The check of placed programs refuses them when any one of their moves is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import xg
from xg.ir.graph import Apply, Call, Graph, IRProgram, Value
from xg.passes.differentiate import differentiate
from xg.passes.shard import Unsound, check

MODEL = Path(__file__).parents[2] / "diagrams" / "models" / "transformer.xg"
PLANS = ("DP_TP", "DP_SP", "FSDP_TP", "All")


@cache
def placed(plan: str) -> IRProgram:
    sizes = {"N_L": 2, "D": 24, "N_H": 6, "V": 24, "S_max": 18, "S": 12, "B": 6}
    program = xg.compile(MODEL, plan=plan, sizes=sizes, mesh={"N_D": 2, "N_T": 3}).distributed
    assert program
    return replace(program, backwards={})


def moves(program: IRProgram) -> Iterator[tuple[str, Apply]]:
    """Every move with the key of its graph."""
    for key, graph in program.graphs.items():
        for step in graph.steps:
            if isinstance(step, Apply) and step.op.family == "collective":
                yield key, step


def without(graph: Graph, move: Apply) -> Graph:
    """The graph whose readers take what was to be moved."""
    (before,), (after,) = move.inputs, move.outputs

    def now(value: Value) -> Value:
        return before if value is after else value

    steps: list[Apply | Call] = [
        replace(step, inputs=tuple(map(now, step.inputs)))
        for step in graph.steps
        if step is not move
    ]
    return replace(graph, steps=tuple(steps), outputs=tuple(map(now, graph.outputs)))


@pytest.mark.parametrize("plan", PLANS)
def test_every_move_is_needed(plan: str) -> None:
    program = placed(plan)
    check(differentiate(program))
    found = list(moves(program))
    assert len(found) > 10
    for key, move in found:
        graphs = {**program.graphs, key: without(program.graphs[key], move)}
        with pytest.raises(Unsound):
            check(differentiate(replace(program, graphs=graphs)))


@pytest.mark.parametrize("plan", PLANS)
def test_no_move_may_be_made_twice(plan: str) -> None:
    program = placed(plan)
    for key, move in moves(program):
        graph = program.graphs[key]
        again = Value(None, "edge", move.span)
        second = replace(move, inputs=move.outputs, outputs=(again,))
        (moved,) = move.outputs
        steps: list[Apply | Call] = []
        for step in graph.steps:
            behind = step is not move and moved in step.inputs
            inputs = tuple(again if v is moved else v for v in step.inputs)
            steps.append(replace(step, inputs=inputs) if behind else step)
            steps += [second] if step is move else []
        doubled = replace(
            graph,
            steps=tuple(steps),
            outputs=tuple(again if v is moved else v for v in graph.outputs),
            types={**graph.types, again: graph.types[moved]},
            placements={**graph.placements, again: graph.placements[moved]},
        )
        with pytest.raises(Unsound):
            check(differentiate(replace(program, graphs={**program.graphs, key: doubled})))


def test_a_gradient_that_is_in_another_state_is_refused() -> None:
    """Also one that no step makes: a cotangent that was given, for a matrix that is cut."""
    program = differentiate(placed("DP_TP"))
    key, backward = next((k, b) for k, b in program.backwards.items() if b.block == "MLP")
    cut = next(value for value in backward.gradients if value.name == "W_down")
    wrong = replace(backward, gradients={**backward.gradients, cut: backward.inputs[0]})
    with pytest.raises(Unsound, match=r"the gradient of W_down is .* over N_., not "):
        check(replace(program, backwards={**program.backwards, key: wrong}))
