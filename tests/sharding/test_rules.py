"""Every operator in every state of its operands, on two and three ranks: typing is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from ops.samples import SAMPLES
from sharding.naive import sound_states
from sharding.trial import States, Trial

from xg import ops
from xg.ir.placement import CONSTANT, shard
from xg.ir.prim import Expr
from xg.sharding import primitive_rules
from xg.sharding.primitive_rules import IllTyped, PlacedArgument

CLOSE = 1e-9


def trials(glyph: str) -> Iterator[Trial]:
    for sample in SAMPLES[glyph]:
        for ranks in (2, 3):
            yield Trial.make(ops.table()[glyph], sample, ranks)


def wrong(
    glyph: str, choices: Callable[[Trial], Iterable[States]] = Trial.tried
) -> tuple[int, list[str]]:
    """How many choices of states are accepted, and which of them are wrong."""
    accepted, found = 0, list[str]()
    for trial in trials(glyph):
        for states in choices(trial):
            try:
                typing = trial.typed(states)
            except IllTyped:
                continue
            accepted += 1
            try:
                error = max(each.error(states, typing) for each in trial.forms)
            except (ValueError, IndexError) as failure:
                found.append(f"{glyph} {[str(s) for s in states]}: {failure!r}")
                continue
            if not error <= CLOSE:
                found.append(f"{glyph} {[str(s) for s in states]}: {error:.1e}")
    return accepted, found


def test_what_differs_in_evaluation_is_tried_there_too() -> None:
    found = {glyph for glyph in SAMPLES if any(len(each.forms) > 1 for each in trials(glyph))}
    assert found == {"BN", "DO", "bernoulli", "normal", "uniform"}


@pytest.mark.parametrize("glyph", sorted(SAMPLES))
def test_nothing_unsound_is_accepted(glyph: str) -> None:
    accepted, found = wrong(glyph)
    assert accepted > 0
    assert found == []


def test_parts_of_numbers_without_a_gradient_are_the_right_ones() -> None:
    indexed = [
        glyph for glyph in SAMPLES if any(op.kind == "int" for op in ops.table()[glyph].data)
    ]
    results = [wrong(glyph, Trial.constants_and_parts) for glyph in indexed]
    assert sum(accepted for accepted, _ in results) > 100
    assert [each for _, found in results for each in found] == []


# The whole list of what is refused although it would be right. A masked score is -inf in every term
# of a sum, and so is their sum; but a term of scores is of no use to the softmax behind it.
# The rows of a convolution's kernel are places, then channels; only what is first may be cut.
REFUSED_ALL_THE_SAME = {("SM", "P"), ("conv", "S(-1)")}


@pytest.mark.parametrize("glyph", sorted(SAMPLES))
def test_nothing_sound_is_refused(glyph: str) -> None:
    found: set[tuple[str, str]] = set()
    for trial in trials(glyph):
        for states in trial.tried():
            try:
                trial.typed(states)
            except IllTyped:
                with np.errstate(all="ignore"):
                    if all(sound_states(each, states) for each in trial.forms):
                        found.add((glyph, str(states[0])))
    assert found == {case for case in REFUSED_ALL_THE_SAME if case[0] == glyph}


def rule_that_is_too_strict(expr: Expr, args: list[PlacedArgument]) -> primitive_rules.AxisState:
    if all(arg.state == primitive_rules.PARTIAL for arg in args):
        raise IllTyped("never", expr)
    return primitive_rules._sum_of(expr, args)  # pyright: ignore[reportPrivateUsage]


def test_a_rule_that_is_too_strict_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(primitive_rules.RULES, "add", rule_that_is_too_strict)  # pyright: ignore
    with pytest.raises(AssertionError):
        test_nothing_sound_is_refused("⊕")


# ---- bodies that bring parts together ------------------------------------------------------------


@pytest.mark.parametrize(("glyph", "sums"), [("CE", 3), ("S", 2), ("LN", 2)])
def test_a_body_may_sum_over_ranks_where_it_needs_the_whole(glyph: str, sums: int) -> None:
    for ranks in (2, 3):
        trial = Trial.make(ops.table()[glyph], SAMPLES[glyph][0], ranks)
        last = [shard(-1) if t.is_float else CONSTANT for t in trial.sample.types]
        with pytest.raises(IllTyped):
            trial.typed(tuple(last))
        typing = trial.typed(tuple(last), collects=True)
        assert len(typing.collected) == sums
        assert trial.error(tuple(last), typing) <= CLOSE


# ---- planted errors ------------------------------------------------------------------------------


def bias_before_the_sum(expr: Expr, args: list[PlacedArgument]) -> primitive_rules.AxisState:
    if any(arg.state == primitive_rules.PARTIAL for arg in args):
        return primitive_rules.PARTIAL
    return primitive_rules.RULES["maximum"](expr, args)


def nonlinear_on_a_term(expr: Expr, args: list[PlacedArgument]) -> primitive_rules.AxisState:
    return args[0].state


def contraction_that_forgets_the_sum(
    expr: Expr, args: list[PlacedArgument]
) -> primitive_rules.AxisState:
    state = primitive_rules._contract(expr, args)  # pyright: ignore[reportPrivateUsage]
    return primitive_rules.REPLICATED if state == primitive_rules.PARTIAL else state


def invariant_that_is_not_cast(expr: Expr, args: list[PlacedArgument]) -> primitive_rules.AxisState:
    kinds = {"I": primitive_rules.REPLICATED}
    changed = [PlacedArgument(a.expr, kinds.get(a.state.kind, a.state)) for a in args]
    return primitive_rules._contract(expr, changed)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("prim", "rule", "glyph"),
    [
        ("add", bias_before_the_sum, "⊕"),
        ("tanh", nonlinear_on_a_term, "tanh"),
        ("contract", contraction_that_forgets_the_sum, "•"),
        ("contract", invariant_that_is_not_cast, "•"),
    ],
)
def test_a_wrong_rule_is_found(
    prim: str, rule: primitive_rules.Rule, glyph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(primitive_rules.RULES, prim, rule)  # pyright: ignore[reportArgumentType]
    assert wrong(glyph)[1]
