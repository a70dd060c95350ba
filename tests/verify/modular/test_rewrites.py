"""Programs of the same algebra agree exactly, forward and backward; others do not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from verify.modular.rewrites import DIMS, REWRITES

from xg.driver import compile_project
from xg.frontend.project import Project, read_project
from xg.ir.graph import IRProgram
from xg.verify.reference.residues import PRIMES, Undefined, run, run_drawn


@cache
def compiled(text: str, folder: Path) -> IRProgram:
    path = folder / "f.xg"
    path.write_text(DIMS + text, encoding="utf-8")
    project: Project = read_project(path)
    return compile_project(project, None, {}).graphs


def changed(text: str, changes: Mapping[str, str]) -> str:
    """All changes at once, so that two parts can change places."""
    for old in changes:
        assert old in text
    return re.sub("|".join(map(re.escape, changes)), lambda found: changes[found[0]], text)


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("name", REWRITES)
def test_equal_algebra_agrees_exactly(name: str, prime: int, tmp_path: Path) -> None:
    rewrite = REWRITES[name]
    for seed in range(3):
        given, outcome = run_drawn(compiled(rewrite.whole, tmp_path), prime, seed)
        parts = run(compiled(rewrite.parts, tmp_path), given)
        assert outcome.first_difference(parts) is None
        assert any(gradient.any() for gradient in outcome.gradients.values())


MISTAKES = [(name, mistake) for name in REWRITES for mistake in REWRITES[name].mistakes]


@pytest.mark.parametrize(("name", "mistake"), MISTAKES)
def test_a_mistake_is_seen(name: str, mistake: str, tmp_path: Path) -> None:
    rewrite = REWRITES[name]
    wrong = compiled(changed(rewrite.parts, rewrite.mistakes[mistake]), tmp_path)
    for prime in PRIMES:
        given, outcome = run_drawn(compiled(rewrite.whole, tmp_path), prime)
        assert outcome.first_difference(run(wrong, given)) in outcome.outputs


def test_a_mistake_in_the_backward_pass_alone_is_seen(tmp_path: Path) -> None:
    program = compiled(REWRITES["attention by heads"].whole, tmp_path)
    given, outcome = run_drawn(program)
    ((key, backward),) = program.backwards.items()
    by_name = {value.name: value for value in backward.gradients}
    queries, keys = by_name["W_Q"], by_name["W_K"]
    exchanged = {queries: backward.gradients[keys], keys: backward.gradients[queries]}
    gradients = {**backward.gradients, **exchanged}
    wrong = replace(program, backwards={key: replace(backward, gradients=gradients)})
    assert outcome.first_difference(run(wrong, given)) == "dW_Q"


def test_a_part_that_is_masked_everywhere_needs_the_maximum_of_the_others(tmp_path: Path) -> None:
    """In floats -inf - -inf is no number, and here neither."""
    rewrite = REWRITES["masked softmax by parts"]
    local = {"max(max[K](a), max[L](b))": "max[K](a)"}
    given, _ = run_drawn(compiled(rewrite.whole, tmp_path))
    with pytest.raises(Undefined, match="-inf"):
        run(compiled(changed(rewrite.parts, local), tmp_path), given)
