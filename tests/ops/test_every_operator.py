"""Properties of every operator in the table; a new one is covered by its samples."""

from dataclasses import replace

import numpy as np
import pytest
from ops.sample import SIZES, Sample, settle
from ops.samples import SAMPLES
from ops.trial import Trial
from tier import THOROUGH

from xg import ops
from xg.ir.op import Op
from xg.ir.use import Data, Length, Number, Tensor, Word
from xg.passes.infer import apply_types

PAIRS = [
    (ops.table()[glyph], sample, f"{glyph}-{place}")
    for glyph, samples in SAMPLES.items()
    for place, sample in enumerate(samples)
    if glyph in ops.table()
]


def _is_differentiable(op: Op, sample: Sample) -> bool:
    return any(type_.is_float for type_ in sample.types) and op.glyph not in ("stop", "argmax")


USES = [pytest.param(op, sample, id=name) for op, sample, name in PAIRS]
DIFFERENTIABLE = [
    pytest.param(op, sample, id=name)
    for op, sample, name in PAIRS
    if _is_differentiable(op, sample)
]
DEEPER = [
    pytest.param(op, sample, id=name)
    for op, sample, name in PAIRS
    if sample.leading and (op.glyph != "argmax")
]
SCALES = (1e-3, 1.0, 1e3)
EDGES = (0.0, -0.0, 1e-8, -1e-8, 20.0, -20.0, 1e4, -1e4)
# The first sample of an operator at every scale; daily the others at one of them, by turns.
SCALED = [
    pytest.param(op, sample, seed, id=f"{name}-{SCALES[seed]:g}")
    for op, sample, name in PAIRS
    if _is_differentiable(op, sample)
    for seed in range(len(SCALES))
    for place in [SAMPLES[op.glyph].index(sample)]
    if THOROUGH or place == 0 or place % len(SCALES) == seed
]
FINITE_DIFFERENCES = 1e-6
CLOSED_FORM = 1e-11


# Moves between ranks have tests of their own: on the whole tensor they change nothing. So has grad,
# whose body is that of a program.
COMPUTING = {
    glyph: op
    for glyph, op in ops.table().items()
    if op.family != "collective" and op.brackets != "values"
}


def test_every_operator_has_samples() -> None:
    assert set(SAMPLES) == set(COMPUTING)


@pytest.mark.parametrize("op", COMPUTING.values(), ids=list(COMPUTING))
def test_samples_cover_every_word_and_every_optional_operand(op: Op) -> None:
    samples = SAMPLES[op.glyph]
    for own in op.own:
        if isinstance(own, Word):
            assert {sample.own.get(own.name, own.choices[0]) for sample in samples} == set(
                own.choices
            )
        if isinstance(own, Number | Length) and own.optional:
            assert {own.name in sample.own for sample in samples} == {True, False}
    for operand in (*op.data, *op.own):
        if isinstance(operand, Data | Tensor) and operand.optional:
            assert {operand.name in sample.operands for sample in samples} == {True, False}


@pytest.mark.parametrize("op", ops.table().values(), ids=list(ops.table()))
def test_the_table_of_operators_says_everything(op: Op) -> None:
    assert all((op.name, op.meaning, op.formula, op.gradient, op.source))
    assert not op.meaning.endswith(".")


@pytest.mark.parametrize("op", ops.table().values(), ids=list(ops.table()))
def test_operands_outputs_and_cotangents_have_names_of_their_own(op: Op) -> None:
    tensors = [own.name for own in op.own if isinstance(own, Tensor)]
    operands = {*(data.name for data in op.data), *tensors}
    made = {*op.outputs, *(f"d{name}" for name in op.outputs)}
    assert not operands & made
    assert len(operands) == len(op.data) + len(tensors)


@pytest.mark.parametrize(("op", "sample"), USES)
def test_values_have_the_shapes_and_types_of_the_body(op: Op, sample: Sample) -> None:
    """And types the shapes that labels name; operands of float32 give nothing wider."""
    for sizes in _with_ones(sample):
        trial = Trial.make(op, sample, sizes=sizes)
        body = op.body(sample.types, trial.attrs)
        for expr, value in zip(body.outputs, trial.outputs().values(), strict=True):
            assert value.shape == trial.context.shape(expr.shape)
            assert value.dtype.kind == {"float": "f", "int": "i", "bool": "b"}[expr.kind]
    types = apply_types(op, sample.types, settle(op, sample))
    for type_, target in zip(types, sample.targets, strict=False):
        assert target in (None, type_.shape)
    narrow = Trial.make(op, sample, dtype=np.float32)
    made = [*narrow.outputs().values(), *narrow.gradients().values()]
    assert {value.dtype for value in made if value.dtype.kind == "f"} <= {np.dtype(np.float32)}


@pytest.mark.parametrize(("op", "sample", "seed"), SCALED)
def test_gradients_agree_with_differences(op: Op, sample: Sample, seed: int) -> None:
    scale = SCALES[seed]
    trial = Trial.make(op, sample, seed, scale)
    found = trial.distance(trial.gradients(), trial.differences(_step(scale)))
    assert found <= FINITE_DIFFERENCES, f"seed {seed}: {found}"


@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_gradients_hold_along_axes_of_size_1(op: Op, sample: Sample) -> None:
    _, *with_one = _with_ones(sample)
    for sizes in with_one:
        trial = Trial.make(op, sample, sizes=sizes)
        assert (
            trial.distance(trial.gradients(), trial.differences(_step(1.0))) <= FINITE_DIFFERENCES
        )


@pytest.mark.parametrize(("op", "sample"), DEEPER)
def test_gradients_hold_for_every_rank(op: Op, sample: Sample) -> None:
    rank = max(len(sample.operands[name].shape) for name in sample.leading)
    for more in range(1, 6 - rank if THOROUGH else 3):
        trial = Trial.make(op, sample.deeper(more))
        assert (
            trial.distance(trial.gradients(), trial.differences(_step(1.0))) <= FINITE_DIFFERENCES
        )


@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_the_closed_form_is_the_derived_one(op: Op, sample: Sample) -> None:
    for seed, scale in enumerate(SCALES):
        for sizes in _with_ones(sample):
            trial = Trial.make(op, sample, seed, scale, sizes)
            derived = trial.without_closed_form().gradients()
            assert trial.distance(trial.gradients(), derived) <= CLOSED_FORM, f"seed {seed}"


@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_edge_values_give_finite_numbers(op: Op, sample: Sample) -> None:
    for edge in EDGES:
        trial = Trial.make(op, sample)
        arrays = {
            name: np.full_like(array, np.clip(edge, 0, 1) if name in sample.unit else edge)
            for name, array in trial.arrays.items()
            if sample.operands[name].is_float
        }
        trial = replace(trial, arrays={**trial.arrays, **arrays})
        for value in trial.outputs().values():
            assert np.all(np.isfinite(value) | (op.glyph == "SM") & np.isneginf(value)), edge
        other = trial.distance(trial.gradients(), trial.without_closed_form().gradients())
        assert (other > CLOSED_FORM) if edge in op.kinks else (other <= CLOSED_FORM), edge


@pytest.mark.parametrize(("op", "sample"), DIFFERENTIABLE)
def test_no_gradient_is_zero_and_one_wrong_by_a_ten_thousandth_is_found(
    op: Op, sample: Sample
) -> None:
    trial = Trial.make(op, sample)
    gradients, differences = trial.gradients(), trial.differences(_step(1.0))
    for name, gradient in gradients.items():
        assert np.any(gradient) or name in sample.flat, name
        wrong = gradient * (1 + 1e-4) if np.any(gradient) else gradient + 1e-4
        assert trial.distance({**gradients, name: wrong}, differences) > FINITE_DIFFERENCES


def _with_ones(sample: Sample) -> list[dict[str, int]]:
    """The usual sizes, and those with each symbol 1 in turn."""
    return [dict(SIZES), *({**SIZES, name: 1} for name in sample.symbols())]


def _step(scale: float) -> float:
    return 1e-3 * min(scale, 1.0)
