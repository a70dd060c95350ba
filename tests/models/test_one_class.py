"""One class for all rows, as the positive of contrastive losses: an integer that is no input."""

import numpy as np
import pytest

import xg
from xg.driver import BACKENDS

TEXT = """
dim B, C = 5
block Net(x [B, C]) -> loss [] {
    range(C) -> pick[C](3) -> BC[B] : t [B] in C
    x -> CE<-t                      : loss
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_loss_is_that_of_the_class_in_every_row(backend: str) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5))
    module = xg.compile(source=TEXT).on_arrays(backend)
    outputs, saved = module.forward({}, {"x": x})
    (gradient,) = module.backward({}, saved, {"loss": np.ones(())}).values()
    weights = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    assert outputs["loss"] == pytest.approx(-np.log(weights[:, 3]).mean())
    assert gradient == pytest.approx((weights - np.eye(5)[3]) / 4)
