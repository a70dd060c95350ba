"""Fused operators have bodies and gradients like any other: differences prove them."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.kernels.samples import SAMPLES
from ops.sample import SIZES, Sample
from ops.trial import Trial
from tier import some

from xg.ir.op import Op
from xg_kernels.fuse import fusions

EVERY = [
    (fusion.op, sample, f"{fusion.op.name}-{place}")
    for fusion in fusions()
    for place, sample in enumerate(SAMPLES[fusion.op.name])
]
USES = [pytest.param(op, sample, id=name) for op, sample, name in EVERY]
# Daily one of all that have the same operands and settings, whatever these are.
DIFFERING = [
    pytest.param(op, sample, id=name)
    for op, sample, name in some(EVERY, lambda use: (use[0].name, *use[1].operands, *use[1].own))
]


def _kept(trial: Trial) -> Trial:
    """A trial whose operator names its attributes as the pass does: an absent p is not there."""
    attrs = {name: value for name, value in trial.attrs.items() if value is not None}
    return Trial(trial.op, trial.sample, attrs, trial.arrays, trial.context)


@pytest.mark.parametrize(("op", "sample"), USES)
def test_the_gradient_is_that_of_the_body(op: Op, sample: Sample) -> None:
    for sizes in ({**SIZES}, *({**SIZES, name: 1} for name in sample.symbols())):
        trial = _kept(Trial.make(op, sample, sizes=sizes))
        found, derived = trial.gradients(), trial.without_closed_form().gradients()
        assert trial.distance(found, derived) < 1e-10


@pytest.mark.parametrize(("op", "sample"), DIFFERING)
def test_the_gradient_is_that_of_differences(op: Op, sample: Sample) -> None:
    trial = _kept(Trial.make(op, sample))
    gradients, differences = trial.gradients(), trial.differences(1e-3)
    assert trial.distance(gradients, differences) < 1e-6
    for name in gradients:
        wrong = {**gradients, name: gradients[name] * (1 + 1e-4)}
        assert trial.distance(wrong, differences) > 1e-6


def test_a_query_that_sees_nothing_gets_zeros_and_gives_none() -> None:
    (attention,) = (fusion.op for fusion in fusions() if fusion.op.name == "attention")
    masked = [sample for sample in SAMPLES["attention"] if "m" in sample.operands]
    trial = _kept(Trial.make(attention, masked[0]))
    trial.arrays["m"][:, 1] = 0
    assert not np.any(trial.outputs()["y"][:, 1])
    assert np.all(np.isfinite(trial.outputs()["lse"]))
    assert not np.any(trial.gradients()["q"][:, 1])
    assert np.any(trial.gradients()["q"][:, 0])
