"""One step of learning with the gradients of a page: a parameter worked out, and the new loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from xg.ir.parameters import frozen_paths
from xg.verify.examples.claim_check import Array
from xg.verify.reference.interpret import Interpreter
from xg_pages.explain.numbers import number
from xg_pages.explain.page import ShownTensor, Update
from xg_runtime.norm import clip, global_norm
from xg_runtime.optim import AdamW

RATE: Final = 3e-3  # that of `xg train`, as are the optimizer and the limit
LIMIT: Final = 1.0


def update_of(
    interpreter: Interpreter,
    inputs: Mapping[str, Array],
    loss: str,
    before: float,
    gradients: Mapping[str, Array],
) -> Update | None:
    """The first step of AdamW at the full rate of `xg train`, without its warm-up.

    None where nothing learns.
    """
    program = interpreter.program
    frozen = frozen_paths(program)
    learning = {path: np.array(x) for path, x in interpreter.params.items() if path not in frozen}
    norm = global_norm({path: gradients[path] for path in learning})
    if not learning or not np.isfinite(norm):
        return None
    scaled = clip({path: gradients[path] for path in learning}, norm, LIMIT)
    optimizer = AdamW()
    optimizer.update(learning, scaled, optimizer.slots(learning), RATE, 0)
    after = Interpreter(program, {**interpreter.params, **learning}, traces=interpreter.traces)
    with np.errstate(all="ignore"):
        outputs, _ = after.forward(inputs)
    moving = (path for path in learning if learning[path].size and scaled[path].flat[0])
    path = next(moving, next(iter(learning)))
    old, new = interpreter.params[path], learning[path]
    shown = (
        ShownTensor(path, "", old),
        ShownTensor(f"d{path}", "", gradients[path]),
        ShownTensor(path, "", new),
    )
    worked = _worked(old, float(scaled[path].flat[0]), optimizer, new) if new.size else ""
    return Update(shown, worked, RATE, norm, norm > LIMIT, loss, (before, float(outputs[loss])))


def _worked(old: Array, gradient: float, rule: AdamW, new: Array) -> str:
    """The first entry: before the first step both moments are zero, so they are dθ and dθ²."""
    theta, g, rate = number(float(old.flat[0])), number(gradient), number(RATE)
    theta = f"({theta})" if theta.startswith("-") and old.ndim >= 2 else theta
    kept = f"{theta}·(1 - {rate}·{number(rule.weight_decay)})" if old.ndim >= 2 else theta
    g = f"({g})" if g.startswith("-") else g
    moved = f"{rate}·{g}/(sqrt({g}^2) + {number(rule.epsilon)})"
    return f"{kept} - {moved} = {float(new.flat[0]):.6g}"
