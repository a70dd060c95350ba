"""Nothing stops a gradient where there is none: in modules of steps."""

from __future__ import annotations

import numpy as np
import pytest
from passes.decode_step.stepping import LENGTH, generated, stepping, written

from xg.ir.body import Body, remove_stops
from xg.ir.prim import Expr, operand

TEXT = """\
dim B, S, D = 4
op Largest(x [.., D]; λ [D]) = exp(x - q) + q
    where q = stop(max(x, stop(λ)))

block Net(X [B, S, D]) -> Y [B, S, D] {
    param λ [D] = ones

    X -> Largest(λ) : Y
}
"""


@pytest.mark.parametrize("kernels", [False, True])
def test_a_step_stops_no_gradient_and_a_backward_pass_does(kernels: bool) -> None:
    program = written(TEXT)
    assert ".detach()" in program.source("torch", kernels=kernels)
    source = program.step().source("torch", kernels=kernels)
    assert ".detach()" not in source
    assert "q = torch.maximum(x, lambda_)" in source
    one = stepping(program)
    found = generated(one, (1,) * LENGTH, "torch", kernels=kernels)
    assert np.abs(found - one.expected()).max() < 1e-12


def test_what_is_read_beside_a_stop_stays_one_expression() -> None:
    x = operand("x", ())
    power = x * x
    body = Body((x,), (power + Expr("stop", (power,), (), "float", (), "kept"),))
    (total,) = remove_stops(body).outputs
    assert total.args == (power, power)
    assert remove_stops(Body((x,), (power,))).outputs == (power,)
