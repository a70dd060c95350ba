"""Diagrams run forward and backward on residues: of every construct and operator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from library import varied
from tier import THOROUGH

from xg.driver import compile_project
from xg.frontend.project import read_project
from xg.frontend.typed import Settings, declared_dims
from xg.ir.graph import IRProgram
from xg.ir.walk import param_specs
from xg.verify.proof_sizes import verification_sizes
from xg.verify.reference.residues import PRIMES, Undefined, draw, run, run_drawn
from xg.verify.zeros import why_zero, why_zero_through_calls

DIAGRAMS = Path(__file__).parents[3] / "diagrams"


# Layers of both kinds in four stages, as the gradients of it are proven daily.
FEWER: dict[str, dict[str, int]] = {
    "models/resnet.xg": dict.fromkeys(("N_1", "N_2", "N_3", "N_4"), 1)
}


@cache
def compiled(name: str, block: str | None = None) -> IRProgram:
    """A diagram at sizes that are small and different."""
    project = read_project(DIAGRAMS / name)
    given = {} if THOROUGH else FEWER.get(name, {})
    sizes = verification_sizes(compile_project(project, block, {}).graphs, given) | given
    known: Settings = {n: size for n, size in sizes.items() if n in declared_dims(project)}
    return compile_project(project, block, known).graphs


def zeros(program: IRProgram) -> Iterator[str]:
    """Gradients that are zero for a reason."""
    for path, param, graph, _ in param_specs(program):
        through = why_zero_through_calls(program, path)
        if not param.value.frozen and (why_zero(graph, param.value) or through):
            yield path
    for value in program.main.inputs:
        if program.main.types[value].is_float and why_zero(program.main, value):
            yield str(value.name)


@pytest.mark.parametrize(
    "name",
    sorted(
        path.relative_to(DIAGRAMS).as_posix()
        for path in DIAGRAMS.rglob("*.xg")
        if path.stem != "node_i"  # for one of several ranks: tests/sharding/test_by_hand.py
        if THOROUGH or varied(path)
    ),
)
def test_a_diagram_runs_without_an_inverse_of_zero(name: str) -> None:
    program = compiled(name)
    given = draw(program, PRIMES[0], seed=1)  # the first draw: nothing is drawn again
    outcome = run(program, given)
    assert outcome.gradients
    found = {path for path, gradient in outcome.gradients.items() if not gradient.any()}
    assert found == set(zeros(program))
    for array in (*outcome.outputs.values(), *outcome.gradients.values()):
        assert np.abs(array).max() <= PRIMES[0] // 2
    assert outcome.first_difference(run(program, given)) is None


def test_other_primes_and_other_draws_give_other_numbers() -> None:
    program = compiled("notation/mha.xg")
    runs = [run_drawn(program, prime, seed)[1] for prime in PRIMES for seed in (0, 1)]
    for place, one in enumerate(runs):
        assert [one.first_difference(two) for two in runs[:place]] == ["Y"] * place


def test_a_program_that_divides_by_zero_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zero.xg"
    path.write_text("op z(x) = x / (x - x)\nblock Z(X [4]) -> Y [4] {\n    X -> z : Y\n}\n")
    program = compile_project(read_project(path), None, {}).graphs
    with pytest.raises(Undefined, match="the inverse of 0"):
        run_drawn(program)


def test_a_draw_that_meets_a_zero_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from xg.verify.reference import residues as module

    program = compiled("notation/mlp.xg")
    real, calls = module.run, list[int]()

    def unlucky(program: IRProgram, given: module.RunInputs) -> module.Outcome:
        calls.append(given.seed)
        if len(calls) == 1:
            raise Undefined("the inverse of 0")
        return real(program, given)

    monkeypatch.setattr(module, "run", unlucky)
    given, outcome = run_drawn(program)
    assert len(calls) == 2
    assert calls[0] != calls[1] == given.seed
    assert outcome.first_difference(real(program, given)) is None
