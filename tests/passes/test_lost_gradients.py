"""Sabotage every pass that has gradients: the verifier raises at the pass that loses one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from xg.frontend.project import read_project
from xg.frontend.typed import type_project
from xg.ir.graph import Apply, Backward, Call, IRProgram, Step, Value
from xg.ir.verify import BrokenProgram
from xg.passes.differentiate import ZEROS
from xg.passes.pipelines import (
    AFTER_PLACE,
    DIFFERENTIATE,
    DROP_MESH,
    ELIMINATE_DEAD,
    NUMBER_MESH,
    PLACED,
    RECOMPUTE,
    Pass,
    run,
)
from xg_kernels.pipelines import COLLECT, REUSE

TEXT = """\
# A table, a skip connection, a repeat, and a loop with two learning states and one that stops.
dim B = 4, S = 3, D = 2, V = 5
mesh N_D = 2

block Cell(x [B, D]) -> y [B, D] {
    param w [D, D]
    state h [B, D]
    state g [B, D] = 0.5
    state k [B, D] = 1

    k -> stop : l
    x -> •<=w -> ⊕<-h -> ⊙<-g -> ⊙<-l -> tanh : y -> ⊕<-g : a
    next h = y
    next g = a
    next k = a
}

block Layer(x [B, S, D], z [B, S, D]) -> y [B, S, D] {
    param a [D, D], b [D, D]

    x -> •<=a -> tanh -> ⊙<-z -> •<=b -> ⊕<-x : y
}

block Table(ids [B, S] in V) -> e [B, S, D] {
    param E [V, D]

    ids -> Emb(E) : e
}

block Net(X [B, S, D], ids [B, S] in V) -> Y [B, S, D], h_S [B, D], g_S [B, D], k_S [B, D] {
    X -> tanh -> 2 × Layer<-X as layers -> Cell over S as cell : H [B, S, D], h_S, g_S, k_S
    ids -> Table(D=D) as table : T
    H -> ⊕<-X -> ⊕<-T : Y
}

plan P of Net {
    X [B/N_D, S, D]
    ids [B/N_D, S]
    layers again
}
"""
RANKS = (NUMBER_MESH, *PLACED, *AFTER_PLACE, REUSE)
KERNELS = (DROP_MESH, ELIMINATE_DEAD, DIFFERENTIATE, COLLECT, REUSE)
LATER = [
    *((RANKS, each) for each in (*AFTER_PLACE, REUSE)),
    *((KERNELS, each) for each in (COLLECT, REUSE)),
]

K = TypeVar("K", bound=Step)
Sabotage = Callable[[Backward], Backward | None]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> IRProgram:
    path = tmp_path_factory.mktemp("lost") / "net.xg"
    path.write_text(TEXT, encoding="utf-8")
    return type_project(read_project(path), "Net", None, "P")


def steps_of(backward: Backward, kind: type[K]) -> Iterator[K]:
    yield from (each for each in backward.steps if isinstance(each, kind) and not each.again)


def exchange(backward: Backward, old: Step, *new: Step) -> Backward:
    """The backward pass with other steps in the place of one."""
    pairs = ((each, new if each is old else (each,)) for each in backward.steps)
    return replace(backward, steps=tuple(each for _, every in pairs for each in every))


def rename(backward: Backward, values: dict[Value, Value]) -> Backward:
    """The backward pass in which all read one value where they read another one."""

    def now(value: Value) -> Value:
        return values.get(value, value)

    steps = (replace(step, inputs=tuple(map(now, step.inputs))) for step in backward.steps)
    return replace(
        backward,
        steps=tuple(steps),
        outputs=tuple(map(now, backward.outputs)),
        gradients={value: now(each) for value, each in backward.gradients.items()},
        totals={value: now(each) for value, each in backward.totals.items()},
    )


def zero_like(backward: Backward, value: Value, of: Value | None) -> tuple[Backward, Apply]:
    """A zero of the type of a value, which a backward pass knows, and the step that makes it."""
    zero = Value(None, "cotangent", value.span)
    shape = backward.types[value].shape
    step = Apply(ZEROS, (), (zero,), {"shape": shape}, value.span)
    known = replace(
        backward,
        types={**backward.types, zero: backward.types[value]},
        of={**backward.of, **({zero: of} if of else {})},
    )
    if backward.placements:
        placements = {**backward.placements, zero: backward.placements[value]}
        known = replace(known, placements=placements)
    return known, step


def is_sum(step: Apply) -> bool:
    return step.op.glyph == "⊕" and step.origin is None


def drop_a_part(backward: Backward) -> Backward | None:
    """A sum of two gradients becomes one of them."""
    for step in filter(is_sum, steps_of(backward, Apply)):
        (total,) = step.outputs
        return rename(exchange(backward, step), {total: step.inputs[0]})
    return None


def double_a_part(backward: Backward) -> Backward | None:
    """A sum of two gradients adds one of them twice."""
    for step in filter(is_sum, steps_of(backward, Apply)):
        first = step.inputs[0]
        return exchange(backward, step, replace(step, inputs=(first, first)))
    return None


def drop_a_parameter(backward: Backward) -> Backward | None:
    """A parameter has no gradient any more."""
    for value, _ in backward.param_gradients():
        gradients = {v: each for v, each in backward.gradients.items() if v is not value}
        return replace(backward, gradients=gradients)
    return None


def zero_a_parameter(backward: Backward) -> Backward | None:
    """The gradient of a parameter becomes a zero, the step that made it goes."""
    for value, gradient in backward.param_gradients():
        known, zero = zero_like(backward, gradient, value)
        new = {gradient: zero.outputs[0]}
        return rename(replace(known, steps=(*known.steps, zero)), new)
    return None


def call_a_gradient_zero(backward: Backward) -> Backward | None:
    """An ordinary gradient is said to be a zero."""
    for value in backward.gradients:
        if value not in backward.zeros:
            return replace(backward, zeros=backward.zeros | {value})
    return None


def fill_a_zero(backward: Backward) -> Backward | None:
    """The gradient of what nothing flows through is that of something else."""
    for value in backward.forward.inputs:
        if value in backward.zeros:
            type_ = backward.types[backward.gradients[value]]
            others = (each for each in backward.inputs if backward.types[each] == type_)
            return rename(backward, {backward.gradients[value]: next(others)})
    return None


def swap_parameters(backward: Backward) -> Backward | None:
    """Two parameters of one shape get each other's gradient."""
    pairs = [*backward.param_gradients()]
    for place, (value, gradient) in enumerate(pairs):
        for other, found in pairs[place + 1 :]:
            if backward.types[gradient] == backward.types[found]:
                swapped = {**backward.gradients, value: found, other: gradient}
                return replace(backward, gradients=swapped)
    return None


def swap_what_goes_round(backward: Backward) -> Backward | None:
    """Two states of a loop hand their gradients to each other."""
    for call in steps_of(backward, Call):
        if len(call.carried) > 1:
            (a, b), (c, d), *rest = call.carried
            return exchange(backward, call, replace(call, carried=((a, d), (c, b), *rest)))
    return None


def forget_what_goes_round(backward: Backward) -> Backward | None:
    """A gradient that goes round is summed over the rounds instead."""
    for call in steps_of(backward, Call):
        if call.carried:
            return exchange(backward, call, replace(call, carried=call.carried[1:]))
    return None


def same_type(backward: Backward, values: tuple[Value, ...]) -> tuple[int, int] | None:
    """The numbers of two different values of one type."""
    for a, first in enumerate(values):
        for b in range(a + 1, len(values)):
            if values[b] is not first and backward.types[values[b]] == backward.types[first]:
                return a, b
    return None


def swap(values: tuple[Value, ...], a: int, b: int) -> tuple[Value, ...]:
    found = [*values]
    found[a], found[b] = found[b], found[a]
    return tuple(found)


def swap_cotangents(backward: Backward) -> Backward | None:
    """A call takes the cotangents of two results the wrong way round."""
    for call in steps_of(backward, Call):
        if pair := same_type(backward, call.inputs):
            return exchange(backward, call, replace(call, inputs=swap(call.inputs, *pair)))
    return None


def swap_gradients(backward: Backward) -> Backward | None:
    """A call gives the gradients of two operands the wrong way round."""
    for call in steps_of(backward, Call):
        pair = same_type(backward, call.outputs)
        if pair and call.outputs[pair[0]] in backward.of:  # of a number that a state starts as none
            return exchange(backward, call, replace(call, outputs=swap(call.outputs, *pair)))
    return None


def zero_a_cotangent(backward: Backward) -> Backward | None:
    """A call takes a zero for the cotangent of a result that is read."""
    for call in steps_of(backward, Call):
        of = next((v for v, each in backward.totals.items() if each is call.inputs[0]), None)
        known, zero = zero_like(backward, call.inputs[0], of)
        inputs = (zero.outputs[0], *call.inputs[1:])
        return exchange(known, call, zero, replace(call, inputs=inputs))
    return None


def zero_in_a_step(backward: Backward) -> Backward | None:
    """An operator's gradient is computed from a zero."""
    for step in steps_of(backward, Apply):
        if step.origin and step.op.family != "collective":
            value = next(each for each in step.inputs if each in backward.of)
            known, zero = zero_like(backward, value, backward.of[value])
            inputs = (zero.outputs[0] if each is value else each for each in step.inputs)
            return exchange(known, step, zero, replace(step, inputs=tuple(inputs)))
    return None


def drop_a_call(backward: Backward) -> Backward | None:
    """A call that only has parameters is not differentiated."""
    for call in steps_of(backward, Call):
        if not call.outputs:
            return exchange(backward, call)
    return None


SABOTAGES = (
    drop_a_call,
    drop_a_part,
    double_a_part,
    drop_a_parameter,
    zero_a_parameter,
    call_a_gradient_zero,
    fill_a_zero,
    swap_parameters,
    swap_what_goes_round,
    forget_what_goes_round,
    swap_cotangents,
    swap_gradients,
    zero_a_cotangent,
    zero_in_a_step,
)


def sabotaged(each: Pass, sabotage: Sabotage) -> Pass:
    """The pass, which changes the first backward graph that has something to lose."""

    def broken(program: IRProgram) -> IRProgram:
        result = each.run(program)
        for key, backward in result.backwards.items():
            changed = sabotage(backward)
            if changed is not None:
                return replace(result, backwards={**result.backwards, key: changed})
        raise LookupError(f"nothing to lose after {each.name}")

    return Pass(each.name, each.says, broken)


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize(("pipeline", "each"), LATER, ids=lambda each: getattr(each, "name", ""))
def test_a_pass_that_loses_a_gradient_is_found(
    typed: IRProgram, pipeline: tuple[Pass, ...], each: Pass, sabotage: Sabotage
) -> None:
    place = pipeline.index(each)
    with pytest.raises(BrokenProgram, match=f"after the pass {each.name}:"):
        run((*pipeline[:place], sabotaged(each, sabotage), *pipeline[place + 1 :]), typed)


def test_the_passes_keep_every_gradient(typed: IRProgram) -> None:
    for pipeline in (RANKS, KERNELS):
        run(pipeline, typed)


INPUT = """\
dim B, D = 4

block Inner(X [B, D], Z [B, D]) -> Y [B, D] {
    param W [D, D]

    X -> •<=W -> ⊙<-Z : Y
}
block Net(X [B, D]) -> Y [B, D] {
    X -> tanh : H
    X -> SiLU : G
    H, G -> Inner as inner : Y
}

plan P of Inner {
    X, Z again
}
"""


def test_an_operand_that_is_made_again_is_the_one_of_the_forward_pass(tmp_path: Path) -> None:
    def sabotage(backward: Backward) -> Backward | None:
        for call in steps_of(backward, Call):
            seed, first, second = call.inputs
            return exchange(backward, call, replace(call, inputs=(seed, second, first)))
        return None

    path = tmp_path / "net.xg"
    path.write_text(INPUT, encoding="utf-8")
    typed = type_project(read_project(path), "Net", None, "P")
    broken = sabotaged(RECOMPUTE, sabotage)
    place = RANKS.index(RECOMPUTE)
    run(RANKS, typed)
    with pytest.raises(BrokenProgram, match="takes G as X, which the forward call did not"):
        run((*RANKS[:place], broken, *RANKS[place + 1 :]), typed)
