"""Every operator on ranks, in residues: typed bodies agree exactly, and planted errors do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from ops.samples import SAMPLES
from sharding.trial import States, Trial
from verify.modular.ranks import agrees, trials

from xg.ir.body import Body, substitute, topological
from xg.ir.prim import Expr, equal
from xg.sharding.local import localize
from xg.sharding.primitive_rules import IllTyped, Typing
from xg.verify.reference.residues import Undefined


def typed(glyph: str, ranks: int, *, collects: bool) -> Iterator[tuple[Trial, States, Typing]]:
    """Choices of states that type; with `collects` all that need sums inside of the body.

    An operand that is a term of a sum is brought together before the body.
    """
    for trial in trials(glyph, ranks):
        for states in trial.choices() if collects else trial.tried():
            try:
                typing = trial.typed(states, collects=collects)
            except IllTyped:
                continue
            if not collects or (typing.collected and not any(s.kind == "P" for s in states)):
                yield trial, states, typing


@pytest.mark.parametrize("glyph", sorted(SAMPLES))
def test_what_types_agrees_exactly(glyph: str) -> None:
    checked = 0
    for ranks in (2, 3):
        for trial, states, typing in typed(glyph, ranks, collects=False):
            assert agrees(trial, states, typing), [str(state) for state in states]
            checked += 1
    assert checked > 0


# ---- sums and maxima inside of bodies -----------------------------------------------------------

COLLECTING = ("S", "LN", "CE")


@pytest.mark.parametrize("glyph", COLLECTING)
def test_a_body_that_sums_over_ranks_agrees_exactly(glyph: str) -> None:
    found = list(typed(glyph, 2, collects=True))
    assert found
    for trial, states, typing in found:
        assert agrees(trial, states, typing), [str(state) for state in states]


def without(node: Expr) -> Expr:
    return node.args[0]


def twice(node: Expr) -> Expr:
    return replace(node, args=(node,))


def other(node: Expr) -> Expr:
    return replace(node, prim="all_reduce" if node.prim == "all_reduce_max" else "all_reduce_max")


def planted(body: Body, mistake: Callable[[Expr], Expr], place: int) -> Body:
    """The body with an error in one of its collectives."""
    node = collectives(body)[place]
    changed = substitute(body.outputs, {id(node): mistake(node)})
    return replace(body, outputs=tuple(out for out in changed if out is not None))


def collectives(body: Body) -> list[Expr]:
    return [e for e in topological(body.outputs) if e.prim.startswith("all_reduce")]


def collectives_of(trial: Trial, typing: Typing) -> list[Expr]:
    outputs = [typing.of(out) for out in trial.body.outputs]
    return collectives(localize(trial.body, typing, outputs, "N"))


@pytest.mark.parametrize("mistake", [without, twice, other])
@pytest.mark.parametrize("glyph", COLLECTING)
def test_every_collective_of_a_body_counts(glyph: str, mistake: Callable[[Expr], Expr]) -> None:
    seen = 0
    for trial, states, typing in typed(glyph, 2, collects=True):
        for place, node in enumerate(collectives_of(trial, typing)):
            if mistake is twice and node.prim == "all_reduce_max":
                continue  # the largest of equals
            assert not agrees_with(mistake, place, trial, states, typing), list(map(str, states))
            seen += 1
    assert seen > 0


def agrees_with(
    mistake: Callable[[Expr], Expr], place: int, trial: Trial, states: States, typing: Typing
) -> bool:
    try:
        return agrees(trial, states, typing, lambda body: planted(body, mistake, place))
    except Undefined:
        return False


# ---- what ranks draw and make by themselves -----------------------------------------------------


def masks_of_its_own(body: Body) -> Body:
    """Dropout drawn from the first bits on every rank."""
    drawn = [e for e in topological(body.outputs) if e.prim == "dropout_keep"]
    uncut = {id(e): replace(e, attrs=(("p", e.attr("p")), ("cuts", ()))) for e in drawn}
    changed = substitute(body.outputs, uncut)
    return replace(body, outputs=tuple(out for out in changed if out is not None))


def test_a_mask_that_is_not_the_slice_of_the_whole_is_seen() -> None:
    drawn = [each for each in typed("DO", 2, collects=False) if each[0].sample.own["p"]]
    cut = [each for each in drawn if each[1][0].kind == "S"]
    assert cut
    assert not any(agrees(*each, masks_of_its_own) for each in cut)


def every_id(body: Body) -> Body:
    """Rows of a table that is cut, taken for every id, held or not."""
    held = {
        id(e): equal(e.args[0], e.args[0])
        for e in topological(body.outputs)
        if e.prim == "owns_index"
    }
    changed = substitute(body.outputs, held)
    return replace(body, outputs=tuple(out for out in changed if out is not None))


def test_rows_that_another_rank_holds_are_seen() -> None:
    vocabulary = [each for each in typed("Emb", 2, collects=False) if has_held(*each)]
    assert vocabulary
    assert not any(agrees(*each, every_id) for each in vocabulary)


def has_held(trial: Trial, states: States, typing: Typing) -> bool:
    outputs = [typing.of(out) for out in trial.body.outputs]
    local = localize(trial.body, typing, outputs, "N")
    return any(expr.prim == "owns_index" for expr in topological(local.outputs))
